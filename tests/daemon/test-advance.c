/* Advancing the epochs of a daemon's pool from an epoch that the caller has seen. */
#include <errno.h>
#include <tslab.h>

#include "tests/util/advance.h"
#include "tests/util/ctl.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=warning", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        ctl_check(*state);
        daemon_stop(*state);
        return 0;
}

static struct tslab *pool_open(const DaemonFixture *daemon, uint32_t flags) {
        struct tslab_options options = { .size = sizeof(options), .flags = flags };
        struct tslab *pool;

        assert_int_equal(tslab_open(&pool, daemon->socket, &options), 0);
        return pool;
}

static void test_advance_from(void **state) {
        struct tslab *pool = pool_open(*state, 0), *reader = pool_open(*state, TSLAB_READER);
        uint32_t first, second, now;

        assert_int_equal(tslab_epoch_current(pool, &first), 0);
        assert_int_equal(tslab_epoch_advance_from(reader, first, &now), -EROFS);
        assert_int_equal(tslab_epoch_advance_from(pool, first, &second), 1);
        assert_int_not_equal(second, first);
        assert_int_equal(tslab_epoch_advance_from(pool, first, &now), 0);
        assert_int_equal(now, second);
        assert_int_equal(tslab_epoch_current(reader, &now), 0);
        assert_int_equal(now, second);
        tslab_close(reader);
        tslab_close(pool);
}

static void test_advance_from_by_many(void **state) {
        struct tslab *pool = pool_open(*state, 0);

        advance_by_many(pool);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_advance_from),
                cmocka_unit_test(test_advance_from_by_many),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
