/* Threads that end by a raw exit, unannounced: their slots come back when records run short. */
#include <tslab.h>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/api/fill.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_THREADS 6
#define N_GONE 60

typedef struct Job {
        struct tslab *pool;
        tslab_handle shared;
        int r;
} Job;

static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 1 << 20,
                                         .n_threads = N_THREADS };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

/* Full caches, and something pending. */
static int hold(Job *job) {
        tslab_handle handles[100], handle;

        for (size_t size = 64; size <= 768; size += 64) {
                for (int i = 0; i < 100; i++)
                        CHECK(tslab_alloc(job->pool, size, TSLAB_EPOCH_CURRENT, &handles[i], NULL) == 0);
                for (int i = 0; i < 100; i++)
                        CHECK(tslab_free(job->pool, handles[i]) == 0);
        }
        for (int i = 0; i < 8; i++)
                CHECK(tslab_alloc_pending(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        return tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &job->shared, NULL);
}

static void *end_raw(void *userdata) {
        Job *job = userdata;

        job->r = hold(job);
        syscall(SYS_exit, 0);
        return NULL;
}

static void run_gone(struct tslab *pool, tslab_handle *ret_shared) {
        Job job = { .pool = pool, .r = -1 };
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, end_raw, &job), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(job.r, 0);
        *ret_shared = job.shared;
}

static void test_gone_threads(void **state) {
        struct tslab *pool = create();
        int n = fill(pool);
        tslab_handle shared;

        assert_true(n < FILL_MAX);
        for (int i = 0; i < N_GONE; i++) {
                run_gone(pool, &shared);
                assert_int_equal(tslab_free(pool, shared), 0); /* it was everyone's */
        }
        (void) tslab_drain(pool);
        tslab_close(pool);
}

typedef struct Living {
        Job job;
        pthread_barrier_t barrier;
} Living;

/* It stands still all the time, and holds its objects. */
static void *live(void *userdata) {
        Living *living = userdata;
        tslab_handle handle;
        int r;

        r = tslab_alloc_pending(living->job.pool, 128, TSLAB_EPOCH_CURRENT, &handle, NULL);
        pthread_barrier_wait(&living->barrier);
        pthread_barrier_wait(&living->barrier);
        if (r == 0)
                r = tslab_publish(living->job.pool, handle);
        if (r == 0)
                r = tslab_free(living->job.pool, handle);
        living->job.r = r;
        return NULL;
}

static void test_gone_threads_beside_living(void **state) {
        Living living = { .job = { .pool = create(), .r = -1 } };
        tslab_handle shared;
        pthread_t thread;

        assert_int_equal(pthread_barrier_init(&living.barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, live, &living), 0);
        pthread_barrier_wait(&living.barrier);
        for (int i = 0; i < N_GONE; i++) {
                run_gone(living.job.pool, &shared);
                assert_int_equal(tslab_free(living.job.pool, shared), 0);
        }
        pthread_barrier_wait(&living.barrier);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(living.job.r, 0);
        (void) tslab_close(living.job.pool);
}

/* Another process takes the records over; then their former owner closes the pool. */
static int take_all(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;

        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        for (int i = 0; i < N_GONE; i++) {
                Job job = { .pool = pool, .r = -1 };
                pthread_t thread;

                CHECK(pthread_create(&thread, NULL, end_raw, &job) == 0);
                CHECK(pthread_join(thread, NULL) == 0);
                CHECK(job.r == 0);
                CHECK(tslab_free(pool, job.shared) == 0);
        }
        CHECK(tslab_free(pool, handle) == 0);
        return 0;
}

static void test_gone_threads_of_another_process(void **state) {
        struct tslab *pool = create();
        tslab_handle shared[3];
        void *object;

        for (int i = 0; i < 3; i++)
                run_gone(pool, &shared[i]);
        assert_int_equal(test_child_run(TEST_FORK, take_all, pool), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(tslab_get(pool, shared[i], &object, NULL), 0);
        tslab_close(pool);
}

typedef struct Pipes {
        struct tslab *pool;
        int to, from; /* the child's ends */
} Pipes;

static int take_and_wait(void *userdata) {
        const Pipes *pipes = userdata;
        Job job = { .pool = pipes->pool };
        tslab_handle pending;
        char byte;

        CHECK(take_all(pipes->pool) == 0);
        CHECK(hold(&job) == 0);
        CHECK(tslab_alloc_pending(pipes->pool, 64, TSLAB_EPOCH_CURRENT, &pending, NULL) == 0);
        CHECK(write(pipes->from, "", 1) == 1);
        CHECK(read(pipes->to, &byte, 1) == 1);
        CHECK(tslab_publish(pipes->pool, pending) == 0);
        return tslab_free(pipes->pool, pending);
}

/* The parent, where it closes the pool, touches no record that is the child's by now. */
static int close_first(void *userdata) {
        Pipes pipes = { .pool = userdata };
        int to[2], from[2];
        tslab_handle shared;
        pid_t child;
        char byte;

        for (int i = 0; i < 3; i++)
                run_gone(pipes.pool, &shared);
        CHECK(pipe(to) == 0 && pipe(from) == 0);
        pipes.to = to[0];
        pipes.from = from[1];
        child = test_child_start(TEST_FORK, take_and_wait, &pipes);
        CHECK(read(from[0], &byte, 1) == 1);
        (void) tslab_close(pipes.pool);
        CHECK(write(to[1], "", 1) == 1);
        return test_child_wait(child);
}

static void test_gone_threads_close(void **state) {
        assert_int_equal(test_child_run(TEST_FORK, close_first, create()), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gone_threads),
                cmocka_unit_test(test_gone_threads_beside_living),
                cmocka_unit_test(test_gone_threads_of_another_process),
                cmocka_unit_test(test_gone_threads_close),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
