/* Numbers for people, and from people. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <errno.h>

#include "daemon/ctl/base/format.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static void test_format_bytes_units(void **state) {
        static const struct {
                uint64_t bytes;
                const char *text;
        } cases[] = {
                { 0, "0B" },
                { 1023, "1023B" },
                { 1024, "1.0K" },
                { 1536, "1.5K" },
                { 1024 * 1024 - 1, "1023.9K" },
                { 1024 * 1024, "1.0M" },
                { UINT64_C(16) << 30, "16.0G" },
                { UINT64_C(1) << 60, "1.0E" },
                { UINT64_MAX, "15.9E" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
                assert_string_equal(format_bytes(FORMAT_BUFFER, cases[i].bytes), cases[i].text);
}

static void test_format_span_two_largest(void **state) {
        static const struct {
                uint64_t usec;
                const char *text;
        } cases[] = {
                { 0, "0ms" },
                { 350000, "350ms" },
                { SECOND, "1s" },
                { SECOND + 350000, "1s" },
                { 12 * MINUTE + 5 * SECOND, "12min 5s" },
                { HOUR, "1h" },
                { 3 * DAY + 4 * HOUR + 5 * MINUTE, "3d 4h" },
                { UINT64_MAX, "213503982d 8h" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
                assert_string_equal(format_span(FORMAT_BUFFER, cases[i].usec), cases[i].text);
}

static void test_format_time_local(void **state) {
        assert_int_equal(setenv("TZ", "UTC", 1), 0);
        tzset();
        assert_string_equal(format_time(FORMAT_BUFFER, 0), "-");
        assert_string_equal(format_time(FORMAT_BUFFER, 86400 * SECOND), "1970-01-02 00:00:00");
        /* a daemon may send nonsense */
        assert_true(strlen(format_time(FORMAT_BUFFER, UINT64_MAX)) < FORMAT_SIZE);
}

static void test_format_ago_future(void **state) {
        assert_string_equal(format_ago(FORMAT_BUFFER, 0, DAY), "-");
        assert_string_equal(format_ago(FORMAT_BUFFER, DAY, DAY + 65 * SECOND), "1min 5s ago");
        assert_string_equal(format_ago(FORMAT_BUFFER, DAY + 1, DAY), "now");
        assert_string_equal(format_ago(FORMAT_BUFFER, 1, UINT64_MAX), "213503982d 8h ago");
}

static void test_format_epoch_era(void **state) {
        assert_string_equal(format_epoch(FORMAT_BUFFER, 3), "3");
        assert_string_equal(format_epoch(FORMAT_BUFFER, 3 | 2 << 8), "3:2");
        assert_string_equal(format_epoch(FORMAT_BUFFER, 63 | 0xffffffU << 8), "63:16777215");
}

static void test_format_count_plural(void **state) {
        assert_string_equal(format_count(FORMAT_BUFFER, 0, "pool", "pools"), "0 pools");
        assert_string_equal(format_count(FORMAT_BUFFER, 1, "pool", "pools"), "1 pool");
        assert_string_equal(format_count(FORMAT_BUFFER, 2, "pool", "pools"), "2 pools");
}

static void test_format_bar_stays_within(void **state) {
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 0, 0, 100), "[..........]");
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 50, 20, 100), "[#####++...]");
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 100, 100, 100), "[##########]");
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 50, UINT64_MAX, 100), "[#####+++++]");
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 1, 0, 0), "[..........]");
        /* anything above 0 shows */
        assert_string_equal(format_bar(FORMAT_BUFFER, 10, 1, 1, 1000000), "[#+........]");
        assert_true(strlen(format_bar(FORMAT_BUFFER, 1000, 1, 1, 2)) < FORMAT_SIZE);
}

static void assert_epoch(const char *text, int expected_r, uint32_t expected) {
        uint32_t epoch = 12345;

        assert_int_equal(parse_epoch(text, &epoch), expected_r);
        /* untouched on failure */
        assert_int_equal(epoch, expected_r ? 12345 : expected);
}

static void test_parse_epoch_forms(void **state) {
        assert_epoch("0", 0, 0);
        assert_epoch("63", 0, 63);
        assert_epoch("3:2", 0, 3 | 2 << 8);
        assert_epoch("3:0", 0, 3);
        assert_epoch("63:16777215", 0, 63 | 0xffffffU << 8);
        /* as --json shows it */
        assert_epoch("515", 0, 3 | 2 << 8);
}

static void test_parse_epoch_refused(void **state) {
        static const char *const words[] = { "",   "x",     "-1",   "+1",  " 1",  "1 ",  "1:",
                                             ":1", "1:2:3", "1:-2", "0x1", "1.0", "515:" };
        static const char *const numbers[] = { "64",
                                               "255",
                                               "3:16777216",
                                               "515:20000000",
                                               "99999999999999999999",
                                               "1:99999999999999999999",
                                               "4294967296" };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i)
                assert_epoch(words[i], -EINVAL, 0);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
                assert_epoch(numbers[i], -ERANGE, 0);
}

static void test_parse_epoch_number_with_era(void **state) {
        /* the era cannot be said twice */
        assert_epoch("515:2", -ERANGE, 0);
}

static void assert_seconds(const char *text, int expected_r, uint32_t expected) {
        uint32_t msec = 12345;

        assert_int_equal(parse_seconds(text, &msec), expected_r);
        assert_int_equal(msec, expected_r ? 12345 : expected);
}

static void test_parse_seconds_decimals(void **state) {
        assert_seconds("0", 0, 0);
        assert_seconds("5", 0, 5000);
        assert_seconds("0.5", 0, 500);
        assert_seconds("0.05", 0, 50);
        assert_seconds("1.234", 0, 1234);
        assert_seconds("86400", 0, 86400000);
}

static void test_parse_seconds_refused(void **state) {
        static const char *const words[] = { "", "x", "-1", "1s", "1.", ".5", "1.2345", "1.2.3", " 1" };
        static const char *const numbers[] = { "86401", "86400.001", "4294968", "99999999999999999999" };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i)
                assert_seconds(words[i], -EINVAL, 0);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
                assert_seconds(numbers[i], -ERANGE, 0);
}

static void assert_bytes(const char *text, int expected_r, uint64_t expected) {
        uint64_t bytes = 7;

        assert_int_equal(parse_bytes(text, &bytes), expected_r);
        assert_true(bytes == (expected_r ? 7 : expected));
}

static void test_parse_bytes(void **state) {
        static const char *const words[] = { "", "x", "-1", "1k", "1KB", "K", "1.5M", " 1", "1T" };

        assert_bytes("0", 0, 0);
        assert_bytes("4096", 0, 4096);
        assert_bytes("3K", 0, 3072);
        assert_bytes("64M", 0, 64 << 20);
        assert_bytes("4000000000G", 0, UINT64_C(4000000000) << 30);
        assert_bytes("99999999999", -ERANGE, 0);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i)
                assert_bytes(words[i], -EINVAL, 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_format_bytes_units),
                cmocka_unit_test(test_format_span_two_largest),
                cmocka_unit_test(test_format_time_local),
                cmocka_unit_test(test_format_ago_future),
                cmocka_unit_test(test_format_epoch_era),
                cmocka_unit_test(test_format_count_plural),
                cmocka_unit_test(test_format_bar_stays_within),
                cmocka_unit_test(test_parse_epoch_forms),
                cmocka_unit_test(test_parse_epoch_refused),
                cmocka_unit_test(test_parse_epoch_number_with_era),
                cmocka_unit_test(test_parse_seconds_decimals),
                cmocka_unit_test(test_parse_seconds_refused),
                cmocka_unit_test(test_parse_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
