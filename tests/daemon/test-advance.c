/* Advancing the epochs of a daemon's pool from an epoch that the caller has seen. */
#include <errno.h>
#include <tslab.h>

#include "tests/util/advance.h"
#include "tests/daemon/small-daemon.h"
#include "tests/util/test.h"

static void test_advance_from(void **state) {
        struct tslab *pool = small_daemon_open(*state, 0), *reader = small_daemon_open(*state, TSLAB_READER);
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
        struct tslab *pool = small_daemon_open(*state, 0);

        advance_by_many(pool);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_advance_from),
                cmocka_unit_test(test_advance_from_by_many),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
