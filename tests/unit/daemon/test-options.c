/* Options that the daemon takes; tests/daemon/test-attach.c has the refused ones, as users see them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/options.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static Options options;

        options_init(&options);
        *state = &options;
        return 0;
}

static int teardown(void **state) {
        options_deinit(*state);
        return 0;
}

static void test_options_defaults(void **state) {
        Options *options = *state;
        char why[OPTIONS_WHY_SIZE];

        assert_int_equal(options_check(options, why), 0);
        assert_string_equal(options->pool, "default");
        assert_int_equal(options->geometry.slabs_size, 256 << 20);
        assert_int_equal(options->geometry.n_records, 1025);
        assert_int_equal(options->mode, 0660);
}

static void test_options_set_sizes(void **state) {
        Options *options = *state;
        static const struct {
                const char *text;
                uint64_t size;
        } cases[] = {
                { "4096", 4096 },
                { "4K", 4096 },
                { "3M", 3 << 20 },
                { "64G", UINT64_C(64) << 30 },
        };
        char why[OPTIONS_WHY_SIZE];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(options_set(options, OPTION_SIZE, cases[i].text, why), 0);
                assert_int_equal(options->geometry.slabs_size, cases[i].size);
        }
        assert_int_equal(options_set(options, OPTION_RETAIN, "0", why), 0);
        assert_int_equal(options->retain_size, 0);
}

static void test_options_set_classes(void **state) {
        Options *options = *state;
        char why[OPTIONS_WHY_SIZE];

        assert_int_equal(options_set(options, OPTION_CLASSES, "80,4096", why), 0);
        assert_int_equal(options->geometry.n_classes, 2);
        assert_int_equal(options->geometry.class_size[0], 80);
        assert_int_equal(options->geometry.class_size[1], 4096);
        assert_int_equal(options->geometry.class_size[2], 0);
        /* A refused option changes nothing. */
        assert_int_equal(options_set(options, OPTION_CLASSES, "64,65", why), -EINVAL);
        assert_int_equal(options->geometry.class_size[0], 80);
}

/* Arguments are set after the environment and replace its values. */
static void test_options_environment(void **state) {
        Options *options = *state;
        char why[OPTIONS_WHY_SIZE];

        setenv("TSLAB_POOL", "web", 1);
        setenv("TSLAB_EPOCHS", "64", 1);
        setenv("TSLAB_LISTEN", "/run/x.sock", 1);
        assert_int_equal(options_set_environment(options, why), 0);
        assert_string_equal(options->pool, "web");
        assert_int_equal(options->geometry.n_epochs, 64);
        assert_string_equal(options->listen, "/run/x.sock");
        assert_int_equal(options_set(options, OPTION_LISTEN, "/run/y.sock", why), 0);
        assert_string_equal(options->listen, "/run/y.sock");

        setenv("TSLAB_EPOCHS", "many", 1);
        assert_int_equal(options_set_environment(options, why), -EINVAL);
        assert_ptr_equal(strstr(why, "$TSLAB_EPOCHS: 'many'"), why);
        unsetenv("TSLAB_POOL");
        unsetenv("TSLAB_EPOCHS");
        unsetenv("TSLAB_LISTEN");
}

static void test_options_keep_is_absolute_or_none(void **state) {
        Options *options = *state;
        char why[OPTIONS_WHY_SIZE];

        assert_null(options->keep);
        assert_int_equal(options_set(options, OPTION_KEEP, "/var/lib/x", why), 0);
        assert_int_equal(options_set(options, OPTION_KEEP, "x", why), -EINVAL);
        assert_string_equal(options->keep, "/var/lib/x");
        assert_int_equal(options_set(options, OPTION_KEEP, "", why), 0);
        assert_null(options->keep);
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_options_defaults),
                TEST(test_options_set_sizes),
                TEST(test_options_set_classes),
                TEST(test_options_environment),
                TEST(test_options_keep_is_absolute_or_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
