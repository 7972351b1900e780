/*
 * Huge pages of the pool
 *
 * Purpose: the loop does not wait for the kernel, which copies 2 MiB at a time, and waits for all processors.
 *
 * Invariants
 *   1. The thread reads the arena's hints only, and changes nothing but pages.
 *   2. Where a slab lost its page while the thread was at its range, the thread goes on once a task of the loop has
 *      dropped the page that the kernel made anew.
 *
 * Who may do what: the lock guards all but `huge`, which is the task's while it is `unsettled`, else the thread's.
 *
 * Crash: see shm/keeper/huge.c.
 */
#include "daemon/work/collapser.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/log.h"
#include "proto/deadline.h"
#include "shm/keeper/huge.h"

#define SETTLE_SLICE 4096U /* budget of a slice: see shm/slab/pages.h */
#define STEP_RANGES 64U
#define STEP_MSEC 10U /* between two steps */
#define PASS_MSEC 10000U /* between two passes */

struct Collapser {
        Pool *pool;
        Task task; /* settles a range */
        pthread_t thread;
        bool started;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool wanted, ending;
        bool unsettled;
        uint64_t size;
        bool refused, told;
        ShmHugeObstacle obstacle; /* if refused */
        ShmHuge huge;
};

/* Until something changed, or the time is over. */
static void collapser_rest(Collapser *c, uint32_t msec) {
        struct timespec end;
        uint64_t usec = proto_deadline(msec * UINT64_C(1000));

        end.tv_sec = (time_t) (usec / PROTO_USEC_PER_SEC);
        end.tv_nsec = (long) (usec % PROTO_USEC_PER_SEC) * 1000;
        (void) pthread_cond_timedwait(&c->changed, &c->lock, &end);
}

/* Under the lock, which it gives up meanwhile. How long to rest. */
static uint32_t do_step(Collapser *c) {
        ShmHugeObstacle obstacle = SHM_HUGE_LACKS;
        bool done, unsettled;

        (void) pthread_mutex_unlock(&c->lock);
        done = shm_huge_step(&c->huge, &c->pool->arena, STEP_RANGES);
        unsettled = shm_huge_is_unsettled(&c->huge, &c->pool->arena);
        if (done && c->huge.refused)
                obstacle = shm_huge_obstacle("");
        (void) pthread_mutex_lock(&c->lock);
        c->unsettled = unsettled;
        c->size = c->huge.size > c->huge.so_far ? c->huge.size : c->huge.so_far;
        if (done) {
                c->refused = c->huge.refused;
                c->obstacle = obstacle;
        }
        return done ? PASS_MSEC : STEP_MSEC;
}

static void *collapser_thread(void *userdata) {
        Collapser *c = userdata;

        (void) pthread_mutex_lock(&c->lock);
        while (!c->ending) {
                if (!c->wanted || c->unsettled)
                        (void) pthread_cond_wait(&c->changed, &c->lock);
                else
                        collapser_rest(c, do_step(c));
        }
        (void) pthread_mutex_unlock(&c->lock);
        return NULL;
}

static void tell_refused(Collapser *c) {
        if (c->refused && !c->told)
                log_line(LOG_WARNING, "the kernel makes no huge pages for the pool: %s",
                         shm_huge_obstacle_text(c->obstacle));
        c->told = c->refused;
}

/* Threads inherit the loop's signal mask, which blocks the signals that the loop reads. */
static void collapser_start(Collapser *c) {
        int r = pthread_create(&c->thread, NULL, collapser_thread, c);

        c->started = r == 0;
        if (r != 0 && !c->told)
                log_error(LOG_WARNING, -r, "huge pages have to wait: no thread can be started");
        c->told = r != 0;
}

/* The thread waits for its end. */
static uint64_t on_settle_slice(void *userdata, uint64_t now) {
        Collapser *c = userdata;

        if (!shm_huge_settle_step(&c->huge, &c->pool->actor, pool_slice(c->pool, SETTLE_SLICE)))
                return 0;
        (void) pthread_mutex_lock(&c->lock);
        c->unsettled = false;
        (void) pthread_cond_signal(&c->changed);
        (void) pthread_mutex_unlock(&c->lock);
        return TASK_IDLE;
}

void collapser_tick(Collapser *c) {
        c->pool->arena.huge = c->pool->options->huge;
        if (!c->started && c->pool->options->huge)
                collapser_start(c);
        if (!c->started)
                return;
        (void) pthread_mutex_lock(&c->lock);
        if (c->unsettled)
                task_wake(&c->task);
        if (c->wanted != c->pool->options->huge)
                (void) pthread_cond_signal(&c->changed);
        c->wanted = c->pool->options->huge;
        tell_refused(c);
        (void) pthread_mutex_unlock(&c->lock);
}

uint64_t collapser_size(Collapser *c, bool *ret_refused, ShmHugeObstacle *ret_obstacle) {
        uint64_t size;

        (void) pthread_mutex_lock(&c->lock);
        size = c->size;
        *ret_refused = c->refused;
        *ret_obstacle = c->obstacle;
        (void) pthread_mutex_unlock(&c->lock);
        return size;
}

int collapser_new(Collapser **ret_collapser, Pool *pool) {
        Collapser *c = calloc(1, sizeof(*c));
        pthread_condattr_t attributes;

        if (!c)
                return -ENOMEM;
        c->pool = pool;
        pool->arena.huge = pool->options->huge;
        (void) pthread_condattr_init(&attributes);
        (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&c->changed, &attributes);
        (void) pthread_condattr_destroy(&attributes);
        (void) pthread_mutex_init(&c->lock, NULL);
        task_init(&c->task, pool->tasks, "collapser", on_settle_slice, c);
        *ret_collapser = c;
        return 0;
}

static void end_thread(Collapser *c) {
        (void) pthread_mutex_lock(&c->lock);
        c->ending = true;
        (void) pthread_cond_signal(&c->changed);
        (void) pthread_mutex_unlock(&c->lock);
        (void) pthread_join(c->thread, NULL);
}

Collapser *collapser_free(Collapser *c) {
        if (!c)
                return NULL;
        if (c->started)
                end_thread(c);
        task_deinit(&c->task);
        (void) pthread_cond_destroy(&c->changed);
        (void) pthread_mutex_destroy(&c->lock);
        free(c);
        return NULL;
}
