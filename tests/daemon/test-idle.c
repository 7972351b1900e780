/* The slots in caches of a thread that sleeps go back after some seconds: by the daemon, or by control calls. */
#include <unistd.h>

#include "tests/daemon/small-daemon.h"

#define WAIT_SECONDS 60

static uint64_t n_cached(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats.cached_objects;
}

static void fill_caches(struct tslab *pool) {
        for (size_t size = 64; size <= 512; size *= 2) {
                tslab_handle handle;

                assert_int_equal(tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
                assert_int_equal(tslab_free(pool, handle), 0);
        }
        assert_true(n_cached(pool) >= 4);
}

static void test_daemon_empties(void **state) {
        struct tslab *pool = small_daemon_open(*state, 0);

        fill_caches(pool);
        for (int i = 0; i < WAIT_SECONDS && n_cached(pool) > 0; i++)
                sleep(1);
        assert_int_equal(n_cached(pool), 0);
        fill_caches(pool);
        tslab_close(pool);
}

/* Without a daemon any control call does it, of any process. */
static void test_control_calls_empty(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 16 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        fill_caches(pool);
        for (int i = 0; i < WAIT_SECONDS && n_cached(pool) > 0; i++) {
                assert_int_equal(tslab_reap(pool), 0);
                sleep(1);
        }
        assert_int_equal(n_cached(pool), 0);
        fill_caches(pool);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_daemon_empties),
                cmocka_unit_test(test_control_calls_empty),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
