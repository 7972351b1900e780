/* More pools than there is address space for are opened and closed, one by one, beside another thread. */
#include <tslab.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/util/test.h"

#define N_POOLS 2500 /* of 64 GiB: 156 TiB, where a process has 128 */

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
        /* Of the first one nothing is left, and it still says so. */
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
                cmocka_unit_test(test_close_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
