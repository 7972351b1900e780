#include <tslab.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/util/test.h"

static int setup(void **state) {
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        *state = pool;
        return 0;
}

static int teardown(void **state) {
        tslab_close(*state);
        return 0;
}

static void test_root_set_get(void **state) {
        struct tslab *pool = *state;
        tslab_handle a, b, found = 7;

        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &a, NULL), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &b, NULL), 0);
        assert_int_equal(tslab_root_get(pool, "table", &found), -ENOENT);
        assert_int_equal(found, 7);

        assert_int_equal(tslab_root_set(pool, "table", a, b), -EAGAIN);
        assert_int_equal(tslab_root_set(pool, "table", 0, a), 0);
        assert_int_equal(tslab_root_set(pool, "table", 0, b), -EAGAIN);
        assert_int_equal(tslab_root_get(pool, "table", &found), 0);
        assert_true(found == a);
        assert_int_equal(tslab_root_set(pool, "table", a, b), 0);
        assert_int_equal(tslab_root_get(pool, "table", &found), 0);
        assert_true(found == b);

        assert_int_equal(tslab_root_set(pool, "table", b, 0), 0);
        assert_int_equal(tslab_root_get(pool, "table", &found), -ENOENT);
        assert_int_equal(tslab_root_set(pool, "table", 0, a), 0);
}

static void test_root_names(void **state) {
        struct tslab *pool = *state;
        tslab_handle found;
        char name[64];

        memset(name, 'x', sizeof(name));
        name[48] = 0;
        assert_int_equal(tslab_root_set(pool, name, 0, 1), -EINVAL);
        assert_int_equal(tslab_root_get(pool, name, &found), -EINVAL);
        name[47] = 0;
        assert_int_equal(tslab_root_set(pool, name, 0, 1), 0);
        assert_int_equal(tslab_root_set(pool, "", 0, 1), -EINVAL);
        assert_int_equal(tslab_root_get(pool, "", &found), -EINVAL);
}

static void test_root_all_names_used(void **state) {
        struct tslab *pool = *state;
        tslab_handle found;
        char name[16];

        for (int i = 0; i < 255; i++) {
                snprintf(name, sizeof(name), "root-%d", i);
                assert_int_equal(tslab_root_set(pool, name, 0, (tslab_handle) i + 1), 0);
        }
        assert_int_equal(tslab_root_set(pool, "one more", 0, 1), -ENOSPC);
        assert_int_equal(tslab_root_set(pool, "root-7", 8, 0), 0);
        assert_int_equal(tslab_root_set(pool, "one more", 0, 1), 0);
        assert_int_equal(tslab_root_set(pool, "root-7", 0, 8), -ENOSPC);
        for (int i = 0; i < 255; i++) {
                snprintf(name, sizeof(name), "root-%d", i);
                assert_int_equal(tslab_root_get(pool, name, &found), i == 7 ? -ENOENT : 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_root_set_get, setup, teardown),
                cmocka_unit_test_setup_teardown(test_root_names, setup, teardown),
                cmocka_unit_test_setup_teardown(test_root_all_names_used, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
