/* Labels of epochs, given by one client and seen by others; readers give none. */
#include <errno.h>
#include <tslab_map.h>
#include <unistd.h>

#include "tests/util/ctl.h"
#include "tests/daemon/small-daemon.h"
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

static int open_map_as_nobody(const DaemonFixture *daemon, uint64_t allowed) {
        struct tslab_map *map;
        struct tslab *pool;
        int r;

        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
                return 1;
        if (tslab_open(&pool, daemon->socket, NULL) != 0)
                return 2;
        r = tslab_map_open(&map, pool, "sessions", NULL);
        if (!allowed)
                return r == -EPERM ? 0 : 3;
        return r == 0 && tslab_map_put(map, "key", 3, "value", 5, TSLAB_EPOCH_CURRENT) == 0 ? 0 : 4;
}

/* Where writers may not reserve epochs, an operator does it for their maps. */
static void test_label_of_maps(void **state) {
        DaemonFixture strict;

        (void) state;
        if (geteuid() != 0)
                skip();
        daemon_start(&strict, (const char *[]){ "--size=1M", "--mode=0666", "--operators-only",
                                                "--log-level=err", NULL });
        daemon_child(open_map_as_nobody, &strict, false);
        assert_int_equal(ctl_run(&strict, NULL, "epoch", "reserve", "maps"), 0);
        daemon_child(open_map_as_nobody, &strict, true);
        daemon_stop(&strict);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_label_seen_by_reader),
                cmocka_unit_test(test_label_bad_epoch),
                cmocka_unit_test(test_label_of_maps),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
