/* The demo's input: lines that servers write, and lines that they do not. */

#include "tests/util/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/demo/demo-log.h"
#include "examples/demo/timeline.h"
#include "examples/demo/traffic.h"

#define TIME "[17/May/2015:10:05:03 +0000]"
#define REST " \"GET /x HTTP/1.1\" 200 5"

static int parse(const char *line, Request *ret, bool *ret_cut) {
        return log_parse_line((Text){ line, strlen(line) }, ret, ret_cut);
}

static void assert_text(Text text, const char *expected) {
        assert_int_equal(text.size, strlen(expected));
        assert_memory_equal(text.bytes, expected, text.size);
}

static void test_line_combined(void **state) {
        Request request;
        bool cut = true;

        assert_int_equal(parse("83.149.9.216 - - " TIME
                               " \"GET /a.png HTTP/1.1\" 404 203023 \"http://x.org/\" \"Mozilla\"",
                               &request, &cut),
                         0);
        assert_text(request.client, "83.149.9.216");
        assert_text(request.path, "/a.png");
        assert_true(request.is_get);
        assert_int_equal(request.time, 1431857103);
        assert_int_equal(request.status, 404);
        assert_int_equal(request.size, 203023);
        assert_false(cut);
}

static void test_line_common(void **state) {
        Request request;
        bool cut = true;

        assert_int_equal(parse("h.example.org - frank " TIME " \"GET / HTTP/1.0\" 304 -", &request, &cut), 0);
        assert_text(request.client, "h.example.org");
        assert_int_equal(request.size, 0);
        assert_false(cut);
}

static void test_line_ipv6(void **state) {
        Request request;

        assert_int_equal(parse("2001:db8::1:ff - - " TIME REST " \"-\" \"-\"", &request, NULL), 0);
        assert_text(request.client, "2001:db8::1:ff");
}

static void test_line_escaped_quotes(void **state) {
        Request request;
        bool cut;

        assert_int_equal(parse("1.2.3.4 - - " TIME
                               " \"GET /say=\\\"hi\\\"\\\\ HTTP/1.1\" 200 5 \"-\" \"a \\\"b\\\" c\"",
                               &request, &cut),
                         0);
        assert_text(request.path, "/say=\\\"hi\\\"\\\\");
        assert_false(cut);
}

static void test_line_user_with_spaces(void **state) {
        Request request;

        assert_int_equal(parse("1.2.3.4 - Ann Lee " TIME REST, &request, NULL), 0);
        assert_int_equal(request.status, 200);
}

static void test_line_no_http(void **state) {
        Request request;

        assert_int_equal(parse("1.2.3.4 - - " TIME " \"\\x16\\x03\\x01\" 400 226", &request, NULL), 0);
        assert_text(request.path, "\\x16\\x03\\x01");
        assert_false(request.is_get);
        assert_int_equal(parse("1.2.3.4 - - " TIME " \"-\" 408 -", &request, NULL), 0);
        assert_text(request.path, "-");
        assert_int_equal(parse("1.2.3.4 - - " TIME " \"\" 400 0", &request, NULL), 0);
        assert_text(request.path, "");
}

/* Every beginning of a line is refused, or parses as the whole line does: no field is made up. */
static void test_line_truncated(void **state) {
        static const char line[] =
                "1.2.3.4 - - " TIME " \"GET /x HTTP/1.1\" 200 5123 \"http://r/\" \"agent\"";
        size_t needed = (size_t) (strstr(line, " 5123") - line) + 2;
        Request request;

        for (size_t n = 0; n < strlen(line); ++n) {
                /* Exactly as large as it is said to be, for the sanitizers. */
                char *copy = malloc(n ?: 1);
                bool cut = false;

                assert_non_null(copy);
                memcpy(copy, line, n);
                assert_int_equal(log_parse_line((Text){ copy, n }, &request, &cut),
                                 n < needed ? LOG_E_MALFORMED : 0);
                if (n >= needed) {
                        assert_int_equal(request.status, 200);
                        assert_int_equal(cut, memchr(copy + needed, '"', n - needed) && copy[n - 1] != ' ' &&
                                                      strncmp(line + n - 1, "\" \"", 3) != 0);
                }
                free(copy);
        }
}

static void test_line_malformed(void **state) {
        static const char *const lines[] = {
                "",
                " ",
                "-",
                " 1.2.3.4 - - " TIME REST,
                "1.2.3.4",
                "1.2.3.4 - - GET / 200",
                "1.2.3.4 - -" REST,
                "1.2.3.4 - - " TIME,
                "1.2.3.4 - - " TIME " GET / 200 5",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1 200 5",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\" 2000 5",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\" ok 5",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\" 200 5x",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\" 200 -5",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\" 200 99999999999999999999",
                "1.2.3.4 - - " TIME " \"GET / HTTP/1.1\\\" 200 5",
        };
        Request request = { .status = 7 };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); ++i) {
                assert_int_equal(parse(lines[i], &request, NULL), LOG_E_MALFORMED);
                assert_int_equal(request.status, 7);
        }
}

static int parse_time(const char *time, int64_t *ret) {
        Request request;
        char line[256];
        int r;

        (void) snprintf(line, sizeof(line), "1.2.3.4 - - [%s]" REST, time);
        r = parse(line, &request, NULL);
        *ret = request.time;
        return r;
}

static void test_time_bad(void **state) {
        static const char *const times[] = {
                "",
                "17/May/2015",
                "17/May/2015:10:05:03",
                "17/may/2015:10:05:03 +0000",
                "17/Mai/2015:10:05:03 +0000",
                "00/May/2015:10:05:03 +0000",
                "32/May/2015:10:05:03 +0000",
                "31/Apr/2015:10:05:03 +0000",
                "29/Feb/2015:10:05:03 +0000",
                "29/Feb/2100:10:05:03 +0000",
                "17/May/1969:10:05:03 +0000",
                "17/May/15:10:05:03 +0000",
                "17/May/2015:24:05:03 +0000",
                "17/May/2015:10:60:03 +0000",
                "17/May/2015:10:05:61 +0000",
                "17/May/2015:10:05:03 0000",
                "17/May/2015:10:05:03 +9900",
                "17/May/2015:10:05:03 +0060",
                "-7/May/2015:10:05:03 +0000",
                "1431857103",
        };
        int64_t ignored;

        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); ++i)
                assert_int_equal(parse_time(times[i], &ignored), LOG_E_MALFORMED);
}

/* Against `date +%s`. */
static void test_time_good(void **state) {
        static const struct {
                const char *text;
                int64_t time;
        } times[] = {
                { "01/Jan/1970:00:00:00 +0000", 0 },
                { "01/Jan/1970:00:00:00 +0100", -3600 },
                { "28/Feb/2000:23:59:59 +0000", 951782399 },
                { "29/Feb/2000:00:00:00 +0000", 951782400 },
                { "10/Oct/2000:13:55:36 -0700", 971211336 },
                { "29/Feb/2024:12:00:00 +0530", 1709188200 },
                { "31/Dec/2016:23:59:60 +0000", 1483228800 },
                { "01/Mar/2100:00:00:00 +0000", 4107542400 },
                { "31/Dec/9999:23:59:59 +0000", 253402300799 },
        };
        int64_t time;

        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); ++i) {
                assert_int_equal(parse_time(times[i].text, &time), 0);
                assert_int_equal(time, times[i].time);
        }
}

static void read_text(Log *log, const char *text, size_t size) {
        char *copy = malloc(size ?: 1);

        assert_non_null(copy);
        memcpy(copy, text, size);
        assert_int_equal(log_parse(log, copy, size), 0);
}

static void test_log_lines(void **state) {
        static const char text[] = "1.1.1.1 - - " TIME REST "\r\n"
                                   "\n"
                                   "rubbish\n"
                                   "2.2.2.2 - - " TIME REST " \"-\" \"cut he\n"
                                   "3.3.3.3 - - " TIME " \"GET /\0 HTTP/1.1\" 200 5\n"
                                   "4.4.4.4 - - " TIME REST;
        Log log;

        read_text(&log, text, sizeof(text) - 1);
        assert_int_equal(log.n_lines, 6);
        assert_int_equal(log.n_malformed, 2);
        assert_int_equal(log.n_cut, 1);
        assert_int_equal(log.n_requests, 4);
        assert_text(log.requests[3].client, "4.4.4.4");
        log_deinit(&log);
}

static void test_log_empty(void **state) {
        Log log;

        read_text(&log, "", 0);
        assert_int_equal(log.n_lines, 0);
        assert_int_equal(log.n_requests, 0);
        log_deinit(&log);
}

/* Lines of megabytes: one that is used, and one of nothing but a client's name. */
static void test_log_huge_lines(void **state) {
        size_t half = 4 << 20, size = 0;
        char *text = malloc(2 * half + 256);
        Log log;

        assert_non_null(text);
        size = (size_t) sprintf(text, "1.1.1.1 - - " TIME " \"GET /");
        memset(text + size, 'x', half);
        size += half;
        size += (size_t) sprintf(text + size, " HTTP/1.1\" 200 5\n");
        memset(text + size, 'y', half);
        size += half;

        assert_int_equal(log_parse(&log, text, size), 0);
        assert_int_equal(log.n_requests, 1);
        assert_int_equal(log.n_malformed, 1);
        assert_int_equal(log.requests[0].path.size, half + 1);
        log_deinit(&log);
}

static void test_client_longest(void **state) {
        char line[LOG_CLIENT_MAX + 128];
        Request request;

        memset(line, 'c', LOG_CLIENT_MAX + 1);
        strcpy(line + LOG_CLIENT_MAX, " - - " TIME REST);
        assert_int_equal(parse(line, &request, NULL), 0);
        strcpy(line + LOG_CLIENT_MAX + 1, " - - " TIME REST);
        line[LOG_CLIENT_MAX] = 'c';
        assert_int_equal(parse(line, &request, NULL), LOG_E_MALFORMED);
}

static void test_read_failures(void **state) {
        Log log;

        assert_int_equal(log_read(&log, "/nonexistent/access.log"), -ENOENT);
        assert_int_equal(log_read(&log, "/"), -EISDIR);
}

static void add_request(Log *log, int64_t time) {
        log->requests[log->n_requests++].time = time;
}

/* Logs are written at the end of requests, so their times go back and forth. */
static void test_timeline_sorts(void **state) {
        Request requests[8] = {};
        Log log = { .requests = requests };
        Timeline timeline;

        add_request(&log, 1000);
        add_request(&log, 1109);
        add_request(&log, 1010);
        add_request(&log, 1009);
        add_request(&log, 1011);
        assert_int_equal(timeline_init(&timeline, &log), 0);

        assert_int_equal(timeline.begin, 1000);
        assert_int_equal(timeline.period_seconds, 11);
        assert_int_equal(timeline.n_periods, 10);
        assert_int_equal(timeline.periods[0].n, 3);
        assert_int_equal(timeline.requests[1].time, 1010);
        assert_int_equal(timeline.requests[2].time, 1009);
        assert_int_equal(timeline.periods[1].first, 3);
        assert_int_equal(timeline.periods[1].n, 1);
        assert_int_equal(timeline.periods[9].n, 1);
        timeline_deinit(&timeline);
}

static void test_timeline_bounds(void **state) {
        Request requests[2] = {};
        Log log = { .requests = requests };
        Timeline timeline;

        assert_int_equal(timeline_init(&timeline, &log), 0);
        assert_int_equal(timeline.n_periods, 1);
        timeline_deinit(&timeline);

        /* As far apart as times can be. */
        add_request(&log, -50400);
        add_request(&log, 253402300799 + 50400);
        assert_int_equal(timeline_init(&timeline, &log), 0);
        assert_in_range(timeline.n_periods, 1, TIMELINE_PERIODS_MAX);
        assert_int_equal(timeline.periods[timeline.n_periods - 1].n, 1);
        timeline_deinit(&timeline);
}

static void test_traffic_is_a_log(void **state) {
        char *text, *again;
        size_t size, size_again;
        Log log;

        assert_int_equal(traffic_make(1, 5000, &text, &size), 0);
        assert_int_equal(traffic_make(1, 5000, &again, &size_again), 0);
        assert_int_equal(size, size_again);
        assert_memory_equal(text, again, size);
        free(again);
        assert_int_equal(traffic_make(2, 5000, &again, &size_again), 0);
        assert_true(size != size_again || memcmp(text, again, size) != 0);
        free(again);

        assert_int_equal(log_parse(&log, text, size), 0);
        assert_int_equal(log.n_requests, 5000);
        assert_int_equal(log.n_malformed + log.n_cut, 0);
        log_deinit(&log);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_line_combined),
                cmocka_unit_test(test_line_common),
                cmocka_unit_test(test_line_ipv6),
                cmocka_unit_test(test_line_escaped_quotes),
                cmocka_unit_test(test_line_user_with_spaces),
                cmocka_unit_test(test_line_no_http),
                cmocka_unit_test(test_line_truncated),
                cmocka_unit_test(test_line_malformed),
                cmocka_unit_test(test_time_bad),
                cmocka_unit_test(test_time_good),
                cmocka_unit_test(test_log_lines),
                cmocka_unit_test(test_log_empty),
                cmocka_unit_test(test_log_huge_lines),
                cmocka_unit_test(test_client_longest),
                cmocka_unit_test(test_read_failures),
                cmocka_unit_test(test_timeline_sorts),
                cmocka_unit_test(test_timeline_bounds),
                cmocka_unit_test(test_traffic_is_a_log),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
