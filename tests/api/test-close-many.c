/* More pools than there is address space for are opened and closed, one by one, while there is another, idle thread. */
#include <tslab.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_POOLS 2500 /* each has 64 GiB: 156 TiB, where a process has 128 */

static void *wait_for_end(void *userdata) {
        (void) pthread_barrier_wait(userdata);
        return NULL;
}

static void *use(void *userdata) {
        tslab_handle handle;
        int r;

        r = tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        return r == 0 && tslab_free(userdata, handle) == 0 ? NULL : userdata;
}

static uint64_t address_space_used(void) {
        FILE *statm = fopen("/proc/self/statm", "re");
        uint64_t n_pages;

        assert_non_null(statm);
        assert_int_equal(fscanf(statm, "%" SCNu64, &n_pages), 1);
        fclose(statm);
        return n_pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

/* There is room for the pool that is being closed, its two other mappings, and little of those before it. */
static void test_close_with_little_room(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = UINT64_C(256) << 20,
                                         .n_threads = 8 };
        pthread_barrier_t barrier;
        struct rlimit before, little;
        struct tslab *pool;
        tslab_handle handle;
        pthread_t idle;

        (void) state;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&idle, NULL, wait_for_end, &barrier), 0);
        assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
        little = before;
        little.rlim_cur = address_space_used() + 6 * options.arena_bytes;
        assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
        for (int i = 0; i < 8; i++) {
                assert_int_equal(tslab_create(&pool, &options), 0);
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
                tslab_close(pool);
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), -EBADF);
        }
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        (void) pthread_barrier_wait(&barrier);
        assert_int_equal(pthread_join(idle, NULL), 0);
        pthread_barrier_destroy(&barrier);
}

#define N_INHERITED 3

typedef struct Inherited {
        struct tslab *pools[N_INHERITED];
        pthread_barrier_t barrier;
        int r;
} Inherited;

/* A thread that has something in all of them. */
static void *hold(void *userdata) {
        Inherited *i = userdata;
        tslab_handle handle;

        for (int at = 0; at < N_INHERITED && i->r == 0; at++)
                i->r = tslab_alloc(i->pools[at], 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        (void) pthread_barrier_wait(&i->barrier);
        (void) pthread_barrier_wait(&i->barrier);
        return NULL;
}

static int close_inherited(void *userdata) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = UINT64_C(256) << 20 };
        struct tslab **pools = ((Inherited *) userdata)->pools, *pool;
        tslab_handle handle;
        struct rlimit little;

        CHECK(tslab_alloc(pools[0], 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        for (int i = 0; i < N_INHERITED; i++)
                tslab_close(pools[i]);
        CHECK(getrlimit(RLIMIT_AS, &little) == 0);
        little.rlim_cur = address_space_used();
        CHECK(setrlimit(RLIMIT_AS, &little) == 0);
        CHECK(tslab_create(&pool, &options) == 0);
        tslab_close(pool);
        return 0;
}

/* States of the parent's threads keep nothing in a child that closes the pool. */
static void test_close_inherited(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = UINT64_C(256) << 20 };
        Inherited inherited = {};
        pthread_t holder;

        (void) state;
        for (int i = 0; i < N_INHERITED; i++)
                assert_int_equal(tslab_create(&inherited.pools[i], &options), 0);
        assert_int_equal(pthread_barrier_init(&inherited.barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&holder, NULL, hold, &inherited), 0);
        (void) pthread_barrier_wait(&inherited.barrier);
        assert_int_equal(inherited.r, 0);
        assert_int_equal(test_child_run(TEST_FORK, close_inherited, &inherited), 0);
        for (int i = 0; i < N_INHERITED; i++)
                tslab_close(inherited.pools[i]);
        (void) pthread_barrier_wait(&inherited.barrier);
        assert_int_equal(pthread_join(holder, NULL), 0);
        pthread_barrier_destroy(&inherited.barrier);
}

static void test_close_many(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = UINT64_C(64) << 30,
                                         .n_threads = 8 };
        struct tslab *pool, *first = NULL;
        pthread_barrier_t barrier;
        pthread_t idle, user;
        tslab_handle handle;
        void *failed;

        (void) state;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&idle, NULL, wait_for_end, &barrier), 0);
        for (int i = 0; i < N_POOLS; i++) {
                assert_int_equal(tslab_create(&pool, &options), 0);
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
                if (i % 16 == 0) { /* a thread that ends, and takes its own leave */
                        assert_int_equal(pthread_create(&user, NULL, use, pool), 0);
                        assert_int_equal(pthread_join(user, &failed), 0);
                        assert_null(failed);
                }
                if (!first)
                        first = pool;
                tslab_close(pool);
        }
        /* Nothing is left of the first pool, and calls still say so. */
        assert_int_equal(tslab_alloc(first, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), -EBADF);
        assert_int_equal(tslab_free(first, handle), -EBADF);
        assert_int_equal(tslab_get(first, handle, &failed, NULL), -ESTALE);
        assert_int_equal(tslab_epoch_close(first, 0, 0), -EBADF);
        assert_int_equal(tslab_root_get(first, "name", &handle), -ENOENT);
        (void) pthread_barrier_wait(&barrier);
        assert_int_equal(pthread_join(idle, NULL), 0);
        pthread_barrier_destroy(&barrier);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_close_with_little_room),
                cmocka_unit_test(test_close_inherited),
                cmocka_unit_test(test_close_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
