/* More pools than there is address space for are opened and closed, one by one, beside another thread. */
#include <tslab.h>

#include <errno.h>
#include <pthread.h>

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
                cmocka_unit_test(test_close_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
