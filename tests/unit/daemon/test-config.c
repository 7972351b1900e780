/* The settings file of a pool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/config.h"
#include "tests/util/test.h"

static char path[64];

static int setup(void **state) {
        int fd;

        strcpy(path, "/tmp/tslab-config-XXXXXX");
        fd = mkstemp(path);
        return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state) {
        return unlink(path);
}

static void write_text(const char *text) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static int read_text(Options *options, const char *text, char *why) {
        write_text(text);
        options_init(options);
        strcpy(why, "");
        return config_read(options, path, why);
}

static void test_config_read(void **state) {
        char why[OPTIONS_WHY_SIZE];
        Options options;

        assert_int_equal(read_text(&options,
                                   "# a comment\n\n  TSLAB_SIZE = 32M \n; TSLAB_SIZE=1\nTSLAB_RETAIN=\"8K\"\n"
                                   "TSLAB_LOG_LEVEL='debug'\r\nTSLAB_OPERATORS_ONLY=yes\nPATH=/bin\n"
                                   "TSLAB_RUNTIME_DIR=/x\nTSLAB_WRITERS=4711,@4712",
                                   why),
                         0);
        assert_int_equal(options.geometry.slabs_size, 32 << 20);
        assert_int_equal(options.retain_size, 8 << 10);
        assert_int_equal(options.log_level, LOG_DEBUG);
        assert_true(options.operators_only);
        assert_int_equal(options.roles.writers.users[0], 4711);
        assert_int_equal(options.roles.writers.groups[0], 4712);
        options_deinit(&options);
}

static void assert_refused(const char *text, const char *reason) {
        char why[OPTIONS_WHY_SIZE];
        Options options;

        assert_int_equal(read_text(&options, text, why), -EINVAL);
        assert_non_null(strstr(why, reason));
        options_deinit(&options);
}

static void test_config_read_refuses(void **state) {
        assert_refused("TSLAB_SIZE=32M\nTSLAB_RETIAN=1\n", ":2: there is no setting TSLAB_RETIAN");
        assert_refused("\xef\xbb\xbfTSLAB_SIZE=32M\n", "has other characters than letters");
        assert_refused("PATH=/bin\nexport TSLAB_SIZE=32M\n",
                       ":2: the name 'export TSLAB_SIZE' has other characters");
        assert_refused("TSLAB-SIZE=32M\n", "has other characters");
        assert_refused("tslab_size=32M\n", ":1: there is no setting tslab_size");
        assert_refused("TSLAB_SIZE=much", ":1: 'much' will not do");
        assert_refused("TSLAB_SIZE\n", ":1: 'TSLAB_SIZE' is not NAME=VALUE");
        assert_refused("TSLAB_OPERATORS_ONLY=maybe\n", "yes or no");
        assert_refused("TSLAB_READERS=no-such-user\n", "'no-such-user' will not do");
}

/* Its rest is no line of its own. */
static void test_config_read_long_line(void **state) {
        char text[1100], why[OPTIONS_WHY_SIZE];
        Options options;

        memset(text, 'x', sizeof(text));
        text[0] = '#';
        strcpy(&text[1023], "\nTSLAB_EPOCHS=4\n");
        assert_int_equal(read_text(&options, text, why), 0);
        assert_int_equal(options.geometry.n_epochs, 4);
        options_deinit(&options);
        strcpy(&text[1023], "TSLAB_EPOCHS=4\n");
        assert_refused(text, ":1: the line is longer than 1023 bytes");
        text[1023] = 'x';
        text[1024] = 0;
        assert_refused(text, ":1: the line is longer than 1023 bytes");
}

/* fopen() opens it, and the first read fails. */
static void test_config_read_unreadable(void **state) {
        char why[OPTIONS_WHY_SIZE] = "";
        Options options;

        options_init(&options);
        assert_int_equal(config_read(&options, "/", why), -EINVAL);
        assert_non_null(strstr(why, "Is a directory"));
        options_deinit(&options);
}

/* systemd put it into the environment, too: deleted from the file, it must be as if it were not set. */
static void test_config_read_takes_over(void **state) {
        char why[OPTIONS_WHY_SIZE] = "";
        Options options;

        assert_int_equal(setenv("TSLAB_RETAIN", "1M", true), 0);
        assert_int_equal(read_text(&options, "TSLAB_RETAIN=1M\n", why), 0);
        options_deinit(&options);
        assert_int_equal(read_text(&options, "", why), 0);
        assert_int_equal(options_set_environment(&options, why), 0);
        assert_int_equal(options.retain_size, SHM_RETAIN_DEFAULT);
        options_deinit(&options);
}

/* The next reload finds the environment as the daemon was given it: without its roles all users would be let in. */
static void test_config_read_saved(void **state) {
        char why[OPTIONS_WHY_SIZE] = "";
        Options options;

        assert_int_equal(setenv("TSLAB_WRITERS", "4711", true), 0);
        assert_int_equal(read_text(&options, "", why), 0);
        write_text("TSLAB_WRITERS=4712\n");
        assert_int_equal(config_read_saved(&options, path, why), 0);
        assert_int_equal(options.roles.writers.users[0], 4712);
        assert_int_equal(options_set_environment(&options, why), 0);
        assert_int_equal(options.roles.writers.users[0], 4711);
        assert_int_equal(unsetenv("TSLAB_WRITERS"), 0);
        options_deinit(&options);
}

static void test_config_read_none(void **state) {
        char why[OPTIONS_WHY_SIZE] = "";
        Options options;

        options_init(&options);
        assert_int_equal(config_read(&options, "/nonexistent/x.conf", why), 0);
        assert_int_equal(config_read(&options, "/proc/self/fd/9999/x", why), 0);
        options_deinit(&options);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_config_read, setup, teardown),
                cmocka_unit_test_setup_teardown(test_config_read_refuses, setup, teardown),
                cmocka_unit_test_setup_teardown(test_config_read_long_line, setup, teardown),
                cmocka_unit_test(test_config_read_unreadable),
                cmocka_unit_test_setup_teardown(test_config_read_takes_over, setup, teardown),
                cmocka_unit_test_setup_teardown(test_config_read_saved, setup, teardown),
                cmocka_unit_test(test_config_read_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
