/* Pools that are closed while threads use them. */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_THREADS 8
#define N_ROUNDS (getenv("TSLAB_TEST_FULL") ? 400 : 40)

/* Threads do not assert: they return the line that failed. */
#define CHECK_HERE(condition)                                                                                \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                              \
                        return -1;                                                                           \
                }                                                                                            \
        } while (0)
#define CHECK_POINTER(condition)                                                                             \
        do {                                                                                                 \
                if (!(condition))                                                                            \
                        return (void *) (uintptr_t) __LINE__;                                                \
        } while (0)

typedef struct Job {
        struct tslab *pool, *other;
        struct tslab_map *map;
        pthread_barrier_t *barrier;
        int number;
        bool forks; /* the process, meanwhile */
        uint64_t n_ops; /* that succeeded */
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

/* Another process that has the pool: how much room there is tells whether all came back. */
static int find_room(void *userdata) {
        tslab_handle *handles = calloc(1 << 14, sizeof(*handles));
        ssize_t n;

        n = tslab_alloc_batch(userdata, 64, TSLAB_EPOCH_CURRENT, handles, 1 << 14);
        CHECK(n == 256 * 64);
        CHECK(tslab_free_batch(userdata, handles, (size_t) n) == n);
        return 0;
}

/* Looks things up in a pool that may be closed: each answer is right, or there is none. */
static int look_up(Job *job, tslab_handle handle) {
        uint8_t bytes[64], *object;
        size_t size;
        uint32_t epoch;
        ssize_t n;
        int r;

        r = tslab_get(job->pool, handle, (void **) &object, &size);
        CHECK_HERE(r == -ESTALE || (r == 0 && size == 64));
        n = tslab_read(job->pool, handle, bytes, sizeof(bytes));
        CHECK_HERE(n == -ESTALE || n == 64);
        for (ssize_t i = 1; i < n; i++)
                CHECK_HERE(bytes[i] == bytes[0]);
        r = tslab_root_get(job->pool, "nothing", &handle);
        CHECK_HERE(r == -ENOENT);
        CHECK_HERE(tslab_epoch_current(job->pool, &epoch) == 0);
        n = job->map ? tslab_map_get(job->map, "k", 1, bytes, sizeof(bytes), NULL) : 1;
        if (n != 1 && n != -EIDRM)
                fprintf(stderr, "get beside close: %zd\n", n);
        CHECK_HERE(n == 1 || n == -EIDRM);
        return 0;
}

static int be_rare(Job *job, int i) {
        tslab_handle handle;
        int r;

        switch (i % 64) {
        case 7:
                r = tslab_root_set(job->pool, "root", 0, 0);
                break;
        case 15:
                r = tslab_alloc_pending(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
                if (r == 0)
                        r = tslab_publish(job->pool, handle) ?: tslab_free(job->pool, handle);
                break;
        case 31:
                r = job->map ? tslab_map_put(job->map, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT) : 0;
                break;
        case 63:
                r = tslab_drain(job->pool);
                break;
        default:
                r = 0;
        }
        CHECK(r == 0 || r == -EBADF);
        return 0;
}

/* Until the pool is closed, and beyond. */
static void *hammer(void *userdata) {
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        tslab_handle handles[4], other;
        Job *job = userdata;
        void *object;
        int r = 0, n;

        /* A fork during a malloc() of another thread: a sanitizer's lock of it would be held in the child for ever. */
        if (job->forks) {
                CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &other, NULL) == 0);
                CHECK_POINTER(tslab_free(job->pool, other) == 0);
        }
        pthread_barrier_wait(job->barrier);
        for (int i = 0; r == 0; i++) {
                for (n = 0; n < 4 && r == 0; n += r == 0) {
                        r = tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handles[n], &object);
                        if (r == 0)
                                memset(object, job->number, 64);
                }
                CHECK_POINTER(r == 0 || r == -EBADF);
                CHECK_POINTER(n == 0 || look_up(job, handles[0]) == 0);
                CHECK_POINTER(be_rare(job, i) == 0);
                if (job->other) {
                        CHECK_POINTER(tslab_alloc(job->other, 64, TSLAB_EPOCH_CURRENT, &other, NULL) == 0);
                        CHECK_POINTER(tslab_free(job->other, other) == 0);
                }
                for (int k = 0; k < n; k++) {
                        int s = tslab_free(job->pool, handles[k]);

                        if (s != 0 && s != -EBADF)
                                fprintf(stderr, "free beside close: %s\n", strerror(-s));
                        CHECK_POINTER(s == 0 || s == -EBADF);
                        CHECK_POINTER(r == 0 || s == -EBADF); /* closed is closed */
                        r = s ?: r;
                }
                job->n_ops++;
        }
        CHECK_POINTER(tslab_get(job->pool, 77, &object, NULL) == -ESTALE);
        CHECK_POINTER(tslab_alloc_batch(job->pool, 64, TSLAB_EPOCH_CURRENT, handles, 4) == -EBADF);
        CHECK_POINTER(tslab_free_batch(job->pool, handles, 4) == -EBADF);
        CHECK_POINTER(tslab_malloc(job->pool, 16, TSLAB_EPOCH_CURRENT) == NULL && errno == EBADF);
        CHECK_POINTER(tslab_root_set(job->pool, "root", 0, 1) == -EBADF);
        CHECK_POINTER(tslab_drain(job->pool) == -EBADF);
        CHECK_POINTER(tslab_epoch_advance(job->pool, NULL) == -EBADF);
        CHECK_POINTER(tslab_epoch_close(job->pool, TSLAB_EPOCH_CURRENT, 0) == -EBADF);
        CHECK_POINTER(!job->map || tslab_map_statistics(job->map, &statistics) == -EIDRM);
        return NULL;
}

static void close_under(uint32_t n_records, int round, struct tslab *other) {
        struct tslab *pool = create(n_records);
        struct tslab_map *map = NULL;
        Job jobs[N_THREADS];
        pthread_barrier_t barrier;

        if (round % 2)
                assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        if (map)
                assert_int_equal(tslab_map_put(map, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
        pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
        for (int i = 0; i < N_THREADS; i++) {
                jobs[i] = (Job){ .pool = pool,
                                 .map = map,
                                 .barrier = &barrier,
                                 .number = i,
                                 .other = i % 4 == 0 ? other : NULL };
                start(&jobs[i], hammer);
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < round % 50; i++)
                sched_yield();
        tslab_close(pool);
        for (int i = 0; i < N_THREADS; i++)
                join(&jobs[i]);
        pthread_barrier_destroy(&barrier);
        tslab_map_close(map);
}

/* A record for each; and fewer, so that some share one. The other pool goes on as if nothing were. */
static void test_close_under_threads(void **state) {
        struct tslab *other = create(0);

        (void) state;
        for (int round = 0; round < N_ROUNDS; round++)
                close_under(round % 4 == 3 ? 3 : 0, round, other);
        assert_int_equal(test_child_run(TEST_FORK, find_room, other), 0);
        tslab_close(other);
}

/* Threads that use a pool, see it closed, and end after that: with caches, and objects pending. */
static void *end_later(void *userdata) {
        tslab_handle handle;
        Job *job = userdata;

        for (int i = 0; i < 100; i++) {
                CHECK_POINTER(tslab_alloc(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
                CHECK_POINTER(tslab_free(job->pool, handle) == 0);
        }
        CHECK_POINTER(tslab_alloc_pending(job->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        pthread_barrier_wait(job->barrier);
        pthread_barrier_wait(job->barrier); /* closed */
        if (job->number % 2)
                CHECK_POINTER(tslab_publish(job->pool, handle) == -EBADF);
        return NULL;
}

typedef struct Watch {
        struct tslab *pool;
        int from[2], to[2];
} Watch;

/* The other process: attached before, it finds all room when the first has closed. */
static int watch(void *userdata) {
        Watch *w = userdata;
        tslab_handle handle;
        char byte;

        CHECK(tslab_alloc(w->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(w->pool, handle) == 0);
        CHECK(write(w->from[1], "", 1) == 1);
        CHECK(read(w->to[0], &byte, 1) == 1);
        CHECK(find_room(w->pool) == 0);
        tslab_close(w->pool);
        return 0;
}

static void test_close_before_threads_end(void **state) {
        Watch w = { .pool = create(0) };
        pthread_barrier_t barrier;
        Job jobs[N_THREADS];
        char byte;
        pid_t pid;

        (void) state;
        assert_int_equal(pipe(w.from), 0);
        assert_int_equal(pipe(w.to), 0);
        pid = test_child_start(TEST_FORK, watch, &w);
        assert_int_equal(read(w.from[0], &byte, 1), 1);
        pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
        for (int i = 0; i < N_THREADS; i++) {
                jobs[i] = (Job){ .pool = w.pool, .barrier = &barrier, .number = i };
                start(&jobs[i], end_later);
        }
        pthread_barrier_wait(&barrier);
        tslab_close(w.pool);
        assert_int_equal(write(w.to[1], "", 1), 1);
        assert_int_equal(test_child_wait(pid), 0);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < N_THREADS; i++)
                join(&jobs[i]);
        pthread_barrier_destroy(&barrier);
        for (int i = 0; i < 2; i++) {
                close(w.from[i]);
                close(w.to[i]);
        }
}

/* A child closes its own side of its parent's pool; the parent's threads go on meanwhile. */
static int close_in_child(void *userdata) {
        tslab_handle handle;
        struct tslab *pool = userdata;

        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(pool, handle) == 0);
        CHECK(tslab_close(pool) == NULL);
        return 0;
}

static void test_close_in_child(void **state) {
        struct tslab *pool = create(0);
        pthread_barrier_t barrier;
        Job jobs[N_THREADS];

        (void) state;
        pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
        for (int i = 0; i < N_THREADS; i++) {
                jobs[i] = (Job){ .pool = pool, .barrier = &barrier, .number = i, .forks = true };
                start(&jobs[i], hammer);
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 10; i++)
                assert_int_equal(test_child_run(TEST_FORK, close_in_child, pool), 0);
        tslab_close(pool);
        for (int i = 0; i < N_THREADS; i++)
                join(&jobs[i]);
        pthread_barrier_destroy(&barrier);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_close_in_child),
                cmocka_unit_test(test_close_under_threads),
                cmocka_unit_test(test_close_before_threads_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
