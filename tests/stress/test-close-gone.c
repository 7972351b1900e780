/*
 * Threads that end by a raw exit at any instruction of a call: closing the pool does not wait for them, and
 * the slots they had in hand come back. They step through the call by the processor's trap flag.
 */
#include "libclient/pool/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/stress/closed.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_MAX 40

typedef struct Job {
        struct tslab *pool;
        uint32_t n_objects;
        long n_steps; /* after which it ends */
        int error;
        bool whole; /* it came to the end of its calls */
} Job;

static volatile long steps_left;

static void on_step(int number) {
        (void) number;
        if (--steps_left == 0)
                syscall(SYS_exit, 0);
}

/* Below the red zone. */
static void step(bool begin) {
        if (begin)
                __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                                 "lea 128(%%rsp), %%rsp" ::
                                         : "memory", "cc");
        else
                __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                                 "lea 128(%%rsp), %%rsp" ::
                                         : "memory", "cc");
}

static int use(struct tslab *pool, uint32_t n) {
        tslab_handle handles[N_MAX];
        int r = 0;

        for (uint32_t i = 0; i < n && r == 0; i++)
                r = tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handles[i], NULL);
        for (uint32_t i = 0; i < n && r == 0; i++)
                r = tslab_free(pool, handles[i]);
        return r;
}

static void *use_and_vanish(void *userdata) {
        Job *job = userdata;

        job->error = use(job->pool, 20); /* its record is there, its cache is not empty */
        if (job->error)
                return NULL;
        steps_left = job->n_steps;
        step(true);
        job->error = use(job->pool, job->n_objects);
        step(false);
        job->whole = true;
        return NULL;
}

/* Closes the pool after that. False: the thread ended in order. */
static bool close_after(struct tslab *pool, uint32_t n_objects, long n_steps) {
        Job job = { .pool = pool, .n_objects = n_objects, .n_steps = n_steps };
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, use_and_vanish, &job), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(job.error, 0);
        assert_null(tslab_close(pool));
        return !job.whole;
}

static bool close_private(uint32_t n_objects, long n_steps) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_threads = 4 };
        struct tslab *pool;
        ShmArena arena;
        bool vanished;

        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(shm_arena_map(&arena, dup(pool->arena.fd), true), 0);
        vanished = close_after(pool, n_objects, n_steps);
        check_closed(&arena, 0, n_objects);
        shm_arena_deinit(&arena);
        return vanished;
}

/* Every instruction of one allocation and one free; some of many, which refill and flush. */
static void test_vanish_private(void **state) {
        const long stride = seed_full() ? 11 : 307;
        long n;

        (void) state;
        for (n = 1; close_private(1, n); n++)
                ;
        assert_in_range(n, 100, 2000);
        for (n = 1; close_private(N_MAX, n); n += stride)
                ;
        assert_true(n > 3000);
}

static void test_vanish_daemon(void **state) {
        DaemonFixture daemon;
        struct tslab *pool;
        uint32_t n_live = 0;
        ProtoCall *call;
        ShmArena arena;
        long n = 1;
        bool more = true;

        (void) state;
        daemon_start(&daemon, (const char *[]){ "--size=16M", "--threads=400", "--log-level=err", NULL });
        for (; more; n += 709) {
                assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
                if (n == 1)
                        assert_int_equal(shm_arena_map(&arena, dup(pool->arena.fd), true), 0);
                more = close_after(pool, N_MAX, n);
                n_live += N_MAX;
        }
        call = daemon_connect(&daemon, 0);
        WAIT_FOR(daemon_n_clients(call) == 0);
        check_closed(&arena, 0, n_live);
        shm_arena_deinit(&arena);
        call = proto_call_free(call);
        daemon_stop(&daemon);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_vanish_private),
                cmocka_unit_test(test_vanish_daemon),
        };

        (void) signal(SIGTRAP, on_step);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
