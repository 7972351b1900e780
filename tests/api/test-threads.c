#include <tslab.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_THREADS 16

/* Threads do not assert: they return the line that failed. */
#define CHECK_POINTER(condition)                                                                             \
        do {                                                                                                 \
                if (!(condition))                                                                            \
                        return (void *) (uintptr_t) __LINE__;                                                \
        } while (0)

typedef struct Job {
        struct tslab *pool, *other;
        pthread_barrier_t *barrier;
        uint8_t number;
        pthread_t thread;
} Job;

static void start(Job *job, void *(*run)(void *) ) {
        assert_int_equal(pthread_create(&job->thread, NULL, run, job), 0);
}

static void join(Job *job) {
        void *line;

        assert_int_equal(pthread_join(job->thread, &line), 0);
        assert_int_equal((uintptr_t) line, 0);
}

static struct tslab *create(uint32_t n_threads) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 1 << 20,
                                         .n_threads = n_threads };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

static void *live_shortly(void *userdata) {
        Job *job = userdata;
        tslab_handle handle, pending[8];

        for (int i = 0; i < 8; i++)
                CHECK_POINTER(tslab_alloc_pending(job->pool, 512, TSLAB_EPOCH_CURRENT, &pending[i], NULL) ==
                              0);
        for (int i = 0; i < 100; i++) {
                CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
                CHECK_POINTER(tslab_free(job->pool, handle) == 0);
        }
        CHECK_POINTER(tslab_publish(job->pool, pending[0]) == 0);
        CHECK_POINTER(tslab_free(job->pool, pending[0]) == 0);
        return NULL; /* with seven pending */
}

static size_t fill(struct tslab *pool) {
        tslab_handle *handles = calloc(1 << 14, sizeof(*handles));
        ssize_t n;

        n = tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles, 1 << 14);
        assert_true(n > 0);
        assert_int_equal(tslab_free_batch(pool, handles, (size_t) n), n);
        free(handles);
        return (size_t) n;
}

static int use_and_close(void *userdata) {
        tslab_handle handle;

        CHECK(tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(userdata, handle) == 0);
        tslab_close(userdata);
        return 0;
}

/* 400 threads, four at a time, with room for six: each gives back its record, its slots, its pending objects. */
static void test_threads_short_lived(void **state) {
        struct tslab *pool = create(6);
        size_t room = fill(pool);
        Job jobs[4];

        (void) state;
        assert_int_equal(room, 256 * 64);
        for (int i = 0; i < 100; i++) {
                for (int k = 0; k < 4; k++) {
                        jobs[k] = (Job){ .pool = pool };
                        start(&jobs[k], live_shortly);
                }
                for (int k = 0; k < 4; k++)
                        join(&jobs[k]);
        }
        assert_int_equal(fill(pool), room);
        /* A child needs a record to attach: not one was lost. */
        assert_int_equal(test_child_run(TEST_FORK, use_and_close, pool), 0);
        tslab_close(pool);
}

static void *churn(void *userdata) {
        Job *job = userdata;
        tslab_handle handles[16];
        void *object;

        pthread_barrier_wait(job->barrier);
        for (int i = 0; i < 500; i++) {
                for (int k = 0; k < 16; k++) {
                        CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handles[k], &object) ==
                                      0);
                        memset(object, job->number, 64);
                }
                for (int k = 0; k < 16; k++) {
                        CHECK_POINTER(tslab_get(job->pool, handles[k], &object, NULL) == 0);
                        for (int at = 0; at < 64; at++)
                                CHECK_POINTER(((uint8_t *) object)[at] == job->number);
                        CHECK_POINTER(tslab_free(job->pool, handles[k]) == 0);
                }
        }
        pthread_barrier_wait(job->barrier); /* all hold their records to the end */
        return NULL;
}

static void churn_in(struct tslab *pool) {
        pthread_barrier_t barrier;
        Job jobs[N_THREADS];

        pthread_barrier_init(&barrier, NULL, N_THREADS);
        for (int i = 0; i < N_THREADS; i++) {
                jobs[i] = (Job){ .pool = pool, .barrier = &barrier, .number = (uint8_t) (i + 1) };
                start(&jobs[i], churn);
        }
        for (int i = 0; i < N_THREADS; i++)
                join(&jobs[i]);
        pthread_barrier_destroy(&barrier);
}

/* One record, shared by all; three; enough. */
static void test_threads_more_than_records(void **state) {
        static const uint32_t n_threads[] = { 1, 3, N_THREADS + 2 };

        (void) state;
        for (int i = 0; i < 3; i++) {
                struct tslab *pool = create(n_threads[i]);

                churn_in(pool);
                assert_int_equal(fill(pool), 256 * 64);
                tslab_close(pool);
        }
}

static bool shares_record(struct tslab *pool) {
        struct tslab_thread_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_thread_stats(pool, &stats), 0);
        return stats.is_shared;
}

/* Takes the last record, and has it until the others have seen that there is none. */
static void *take_last_record(void *userdata) {
        Job *job = userdata;
        tslab_handle handle;

        CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        (void) pthread_barrier_wait(job->barrier);
        (void) pthread_barrier_wait(job->barrier);
        CHECK_POINTER(tslab_free(job->pool, handle) == 0);
        return NULL;
}

/* A thread that found no record has one of its own once another has ended; its pending object is still its own. */
static void test_threads_share_until_one_is_free(void **state) {
        pthread_barrier_t barrier;
        Job job = { .pool = create(2), .barrier = &barrier };
        tslab_handle handle, freed;

        (void) state;
        pthread_barrier_init(&barrier, NULL, 2);
        start(&job, take_last_record);
        (void) pthread_barrier_wait(&barrier);
        assert_int_equal(tslab_alloc_pending(job.pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_alloc_pending(job.pool, 64, TSLAB_EPOCH_CURRENT, &freed, NULL), 0);
        assert_true(shares_record(job.pool));
        (void) pthread_barrier_wait(&barrier);
        join(&job);
        for (unsigned i = 0; i < 60000 && shares_record(job.pool); i++)
                usleep(1000);
        assert_false(shares_record(job.pool));
        assert_int_equal(tslab_publish(job.pool, handle), 0);
        assert_int_equal(tslab_publish(job.pool, handle), -ENOENT);
        assert_int_equal(tslab_free(job.pool, handle), 0);
        assert_int_equal(tslab_free(job.pool, freed), 0);
        pthread_barrier_destroy(&barrier);
        tslab_close(job.pool);
}

static void *pend_shared(void *userdata) {
        Job *job = userdata;
        tslab_handle handle;

        for (int i = 0; i < 100; i++) {
                CHECK_POINTER(tslab_alloc_pending(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
                CHECK_POINTER(tslab_publish(job->pool, handle) == 0);
                CHECK_POINTER(tslab_publish(job->pool, handle) == -ENOENT);
                CHECK_POINTER(tslab_free(job->pool, handle) == 0);
        }
        return NULL;
}

static void test_threads_pending_shared(void **state) {
        struct tslab *pool = create(1);
        Job jobs[4];

        (void) state;
        for (int i = 0; i < 4; i++) {
                jobs[i] = (Job){ .pool = pool };
                start(&jobs[i], pend_shared);
        }
        for (int i = 0; i < 4; i++)
                join(&jobs[i]);
        tslab_close(pool);
}

static void *alternate(void *userdata) {
        Job *job = userdata;
        tslab_handle a, b;

        for (int i = 0; i < 2000; i++) {
                CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &a, NULL) == 0);
                CHECK_POINTER(tslab_alloc(job->other, 64, TSLAB_EPOCH_CURRENT, &b, NULL) == 0);
                CHECK_POINTER(tslab_free(job->pool, b) == -ESTALE);
                CHECK_POINTER(tslab_free(job->pool, a) == 0);
                CHECK_POINTER(tslab_free(job->other, b) == 0);
        }
        return NULL;
}

static void test_threads_two_pools(void **state) {
        struct tslab *pool = create(0), *other = create(2);
        Job jobs[4];

        (void) state;
        for (int i = 0; i < 4; i++) {
                jobs[i] = (Job){ .pool = i % 2 ? pool : other, .other = i % 2 ? other : pool };
                start(&jobs[i], alternate);
        }
        for (int i = 0; i < 4; i++)
                join(&jobs[i]);
        tslab_close(pool);
        tslab_close(other);
}

/* Threads that outlive pools they used: many of them, so that the table of a thread has to grow and to forget. */
static void *outlive(void *userdata) {
        Job *job = userdata;
        tslab_handle handle;

        for (int i = 0; i < 20; i++) {
                pthread_barrier_wait(job->barrier);
                CHECK_POINTER(tslab_alloc_pending(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
                CHECK_POINTER(tslab_alloc(job->other, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
                CHECK_POINTER(tslab_free(job->other, handle) == 0);
                pthread_barrier_wait(job->barrier);
        }
        return NULL;
}

static void test_threads_outlive_pools(void **state) {
        struct tslab *kept = create(0);
        pthread_barrier_t barrier;
        Job jobs[3];

        (void) state;
        pthread_barrier_init(&barrier, NULL, 4);
        for (int k = 0; k < 3; k++) {
                jobs[k] = (Job){ .other = kept, .barrier = &barrier };
                start(&jobs[k], outlive);
        }
        for (int i = 0; i < 20; i++) {
                struct tslab *pool = create(0);

                for (int k = 0; k < 3; k++)
                        jobs[k].pool = pool;
                pthread_barrier_wait(&barrier);
                pthread_barrier_wait(&barrier);
                tslab_close(pool);
        }
        for (int k = 0; k < 3; k++)
                join(&jobs[k]);
        pthread_barrier_destroy(&barrier);
        tslab_close(kept);
}

static tslab_handle exchange[64];

/* Objects go from hand to hand: the thread that takes one out frees it, once, and finds its allocator's bytes. */
static void *pass(void *userdata) {
        Job *job = userdata;
        tslab_handle handle;
        void *object;

        for (uint32_t i = 0; i < 5000; i++) {
                CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object) == 0);
                memset(object, (int) i, 64);
                handle = shm_xchg_acqrel(&exchange[(i * 7 + job->number) % 64], handle);
                if (handle == 0)
                        continue;
                CHECK_POINTER(tslab_get(job->pool, handle, &object, NULL) == 0);
                for (int at = 1; at < 64; at++)
                        CHECK_POINTER(((uint8_t *) object)[at] == *(uint8_t *) object);
                CHECK_POINTER(tslab_free(job->pool, handle) == 0);
        }
        return NULL;
}

/* While epochs advance and close under way, in which case allocation waits for the next. */
static void test_threads_pass_objects(void **state) {
        struct tslab *pool = create(0);
        Job jobs[4];

        (void) state;
        for (int i = 0; i < 4; i++) {
                jobs[i] = (Job){ .pool = pool, .number = (uint8_t) i };
                start(&jobs[i], pass);
        }
        for (int i = 0; i < 40; i++) {
                uint32_t old;

                assert_int_equal(tslab_epoch_current(pool, &old), 0);
                assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
                assert_int_equal(tslab_epoch_close(pool, old, 0), 0);
        }
        for (int i = 0; i < 4; i++)
                join(&jobs[i]);
        for (int i = 0; i < 64; i++)
                assert_int_equal(tslab_free(pool, exchange[i]), exchange[i] ? 0 : -ESTALE);
        assert_int_equal(fill(pool), 256 * 64);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_threads_short_lived),
                cmocka_unit_test(test_threads_more_than_records),
                cmocka_unit_test(test_threads_share_until_one_is_free),
                cmocka_unit_test(test_threads_pending_shared),
                cmocka_unit_test(test_threads_two_pools),
                cmocka_unit_test(test_threads_outlive_pools),
                cmocka_unit_test(test_threads_pass_objects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
