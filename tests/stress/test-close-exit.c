/*
 * Pools are closed while threads that used them are just ending, in every way there is: no thread touches memory that
 * is gone, and all that the threads held comes back.
 */
#include "libclient/pool/pool.h"

#include <pthread.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/stress/closed.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_THREADS 9
#define N_OBJECTS 8

typedef struct Job {
        struct tslab *pool;
        pthread_barrier_t *barrier;
        pthread_t thread;
        int number;
        uint32_t n_turns;
        uint32_t n_live; /* its objects, but for pending ones */
        int error;
} Job;

/* Some objects come, and as many go: -EBADF when the pool is closed, which keeps the rest of them. */
static int use(Job *job, uint32_t turn) {
        size_t size = (size_t) 64 << ((uint32_t) job->number + turn) % 4;
        tslab_handle handles[N_OBJECTS], pending;
        uint32_t n = 0;
        int r = 0;

        for (; n < N_OBJECTS && r == 0; n += r == 0)
                r = tslab_alloc(job->pool, size, TSLAB_EPOCH_CURRENT, &handles[n], NULL);
        if (r == 0 && turn < 2)
                r = tslab_alloc_pending(job->pool, size, TSLAB_EPOCH_CURRENT, &pending, NULL);
        job->n_live += n;
        for (; n > 0 && r == 0; n -= r == 0)
                if ((r = tslab_free(job->pool, handles[n - 1])) == 0)
                        job->n_live--;
        return r;
}

/* One of three returns, one calls pthread_exit(), one goes on until it is cancelled. */
static void *use_and_end(void *userdata) {
        Job *job = userdata;
        int r = 0;

        pthread_barrier_wait(job->barrier);
        for (uint32_t i = 0; r == 0 && (i < job->n_turns || job->number % 3 == 2); i++) {
                r = use(job, i);
                pthread_testcancel();
                sched_yield();
        }
        job->error = r == -EBADF ? 0 : r;
        if (job->number % 3 == 1)
                pthread_exit(NULL);
        return NULL;
}

static void start_all(Job *jobs, struct tslab *pool, pthread_barrier_t *barrier, uint64_t *seed) {
        for (int i = 0; i < N_THREADS; i++) {
                jobs[i] = (Job){
                        .pool = pool, .barrier = barrier, .number = i, .n_turns = seed_below(seed, 6)
                };
                assert_int_equal(pthread_create(&jobs[i].thread, NULL, use_and_end, &jobs[i]), 0);
        }
}

/* Closes the pool; how many objects its threads could not free any more. */
static uint32_t close_beside(struct tslab *pool, uint64_t *seed) {
        pthread_barrier_t barrier;
        Job jobs[N_THREADS];
        uint32_t n_live = 0, n_yields = seed_below(seed, 12), first = seed_below(seed, 2);

        pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
        start_all(jobs, pool, &barrier, seed);
        pthread_barrier_wait(&barrier);
        for (uint32_t i = 0; i < n_yields; i++)
                sched_yield();
        if (!first)
                tslab_close(pool);
        for (int i = 2; i < N_THREADS; i += 3)
                pthread_cancel(jobs[i].thread);
        if (first)
                tslab_close(pool);
        for (int i = 0; i < N_THREADS; i++) {
                assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
                assert_int_equal(jobs[i].error, 0);
                n_live += jobs[i].n_live;
        }
        pthread_barrier_destroy(&barrier);
        return n_live;
}

/* A pool of its own for each round, looked at through another mapping; in some, threads share records. */
static void test_close_private(void **state) {
        uint32_t n_rounds = seed_full() ? 8000 : 400;
        uint64_t seed = seed_get();

        (void) state;
        for (uint32_t i = 0; i < n_rounds; i++) {
                struct tslab_options options = { .size = sizeof(options),
                                                 .arena_bytes = 1 << 20,
                                                 .n_threads = i % 4 == 3 ? 5 : 0 };
                struct tslab *pool;
                ShmArena arena;
                uint32_t n_live;

                assert_int_equal(tslab_create(&pool, &options), 0);
                assert_int_equal(shm_arena_map(&arena, dup(pool->arena.fd), true), 0);
                n_live = close_beside(pool, &seed);
                check_closed(&arena, n_live, n_live);
                shm_arena_deinit(&arena);
        }
}

/* One pool of a daemon, opened again and again. */
static void test_close_daemon(void **state) {
        uint32_t n_rounds = seed_full() ? 3000 : 150;
        uint64_t seed = seed_get(), n_live = 0;
        DaemonFixture daemon;
        struct tslab *pool;
        ProtoCall *call;
        ShmArena arena;

        (void) state;
        daemon_start(&daemon, (const char *[]){ "--size=64M", "--threads=64", "--log-level=err", NULL });
        call = daemon_connect(&daemon, 0);
        for (uint32_t i = 0; i < n_rounds; i++) {
                assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
                if (i == 0)
                        assert_int_equal(shm_arena_map(&arena, dup(pool->arena.fd), true), 0);
                n_live += close_beside(pool, &seed);
        }
        WAIT_FOR(daemon_n_clients(call) == 0);
        check_closed(&arena, n_live, n_live);
        shm_arena_deinit(&arena);
        call = proto_call_free(call);
        daemon_stop(&daemon);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_close_private),
                cmocka_unit_test(test_close_daemon),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
