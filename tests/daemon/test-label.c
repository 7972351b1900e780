/* Labels of epochs, given by one client and seen by others; readers give none. */
#include <errno.h>
#include <tslab.h>

#include "tests/util/small-daemon.h"
#include "tests/util/test.h"

static void assert_label(struct tslab *pool, uint32_t epoch, const char *label) {
        struct tslab_epoch_info info = { .size = sizeof(info) };

        assert_int_equal(tslab_epoch_info(pool, epoch, &info), 0);
        assert_string_equal(info.label, label);
}

static void test_label_seen_by_reader(void **state) {
        struct tslab *writer = small_daemon_open(*state, 0),
                     *reader = small_daemon_open(*state, TSLAB_READER);

        assert_int_equal(tslab_epoch_label(writer, TSLAB_EPOCH_CURRENT, "morning"), 0);
        assert_label(reader, TSLAB_EPOCH_CURRENT, "morning");
        assert_int_equal(tslab_epoch_label(reader, TSLAB_EPOCH_CURRENT, "mine"), -EROFS);
        assert_label(writer, TSLAB_EPOCH_CURRENT, "morning");
        assert_int_equal(tslab_epoch_label(writer, TSLAB_EPOCH_CURRENT, NULL), 0);
        assert_label(reader, TSLAB_EPOCH_CURRENT, "");
        tslab_close(reader);
        tslab_close(writer);
}

static void test_label_bad_epoch(void **state) {
        struct tslab *pool = small_daemon_open(*state, 0);
        uint32_t epoch;

        assert_int_equal(tslab_epoch_current(pool, &epoch), 0);
        assert_int_equal(tslab_epoch_label(pool, 200, "none"), -EINVAL);
        assert_int_equal(tslab_epoch_label(pool, epoch + (1U << 8), "future"), -ESTALE);
        assert_label(pool, epoch, "");
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_label_seen_by_reader),
                cmocka_unit_test(test_label_bad_epoch),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
