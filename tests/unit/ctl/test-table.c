/* Tables of text, and when they are coloured and paged. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/ctl/base/progress.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/view/table.h"
#include "proto/cleanup.h"

static const TableColumn columns[] = {
        { "NAME", TABLE_LEFT, 0 },
        { "SIZE", TABLE_RIGHT, 0 },
        { "LABEL", TABLE_LEFT, 0 },
};

static void assert_prints_within(Table *table, unsigned width, bool legend, const char *expected) {
        _cleanup_(proto_freep) char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        table_print(table, out, legend, width);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, expected);
}

static void assert_prints(Table *table, bool legend, const char *expected) {
        assert_prints_within(table, 0, legend, expected);
}

static void test_table_print_aligned(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 3);

        table_add(table, "%s", "default");
        table_add(table, "%d", 7);
        table_add(table, "%s", "x");
        table_add(table, "%s", "a");
        table_add(table, "%d", 123456);
        table_add(table, "%s", "");

        assert_int_equal(table_n_rows(table), 2);
        assert_prints(table, true,
                      "NAME       SIZE  LABEL\n"
                      "default       7  x\n"
                      "a        123456  -\n");
        /* titles do not widen columns when they are not shown */
        assert_prints(table, false,
                      "default       7  x\n"
                      "a        123456  -\n");
}

static void assert_narrow(unsigned width, bool legend, const char *expected) {
        static const TableColumn ranked[] = {
                { "NAME", TABLE_LEFT, 0 }, { "SIZE", TABLE_RIGHT, 1 }, { "STATE", TABLE_LEFT, 3 },
                { "USER", TABLE_LEFT, 2 }, { "LABEL", TABLE_TEXT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(ranked, 5);
        const char *const cells[] = { "web", "1", "up", "", "x", "db", "22", "down", "", "yyyyyy" };

        for (size_t i = 0; i < 10; ++i)
                table_add(table, "%s", cells[i]);
        assert_prints_within(table, width, legend, expected);
}

/* Columns go by rank, empty ones first, never columns of rank 0. */
static void test_table_print_narrow(void **state) {
        assert_narrow(32, true,
                      "NAME  SIZE  STATE  USER  LABEL\n"
                      "web      1  up     -     x\n"
                      "db      22  down   -     yyyyyy\n");
        assert_narrow(30, true,
                      "NAME  SIZE  STATE  LABEL\n"
                      "web      1  up     x\n"
                      "db      22  down   yyyyyy\n"
                      "No room for USER.\n");
        assert_narrow(24, true,
                      "NAME  SIZE  LABEL\n"
                      "web      1  x\n"
                      "db      22  yyyyyy\n"
                      "No room for STATE, USER.\n");
        assert_narrow(21, false,
                      "web   1  up    x\n"
                      "db   22  down  yyyyyy\n");
}

/* Where no column is left to leave out, text is cut, and nothing else. */
static void test_table_print_cuts_text(void **state) {
        assert_narrow(9, true,
                      "NAME  LABEL\n"
                      "web   x\n"
                      "db    yyyyy\n"
                      "No room for SIZE, STATE, USER.\n");
        /* in a pipe nothing is cut */
        assert_narrow(0, false,
                      "web   1  up    -  x\n"
                      "db   22  down  -  yyyyyy\n");
}

static void test_table_select_columns(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 3);

        assert_int_equal(table_select(table, "label,Name,label"), CTL_DONE);
        table_add(table, "%s", "a");
        table_add(table, "%d", 1);
        table_add(table, "%s", "x");
        /* chosen columns stay on the narrowest terminal; text alone is cut */
        assert_prints_within(table, 5, true,
                             "LABEL  NAME\n"
                             "x      a\n");
}

static void test_table_select_unknown(void **state) {
        static const char *const wrong[] = { "", "name,", ",name", "nam", "names", "name label" };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
                _cleanup_(table_freep) Table *table = table_new(columns, 3);

                assert_int_equal(table_select(table, wrong[i]), CTL_USAGE);
        }
}

static void test_table_print_characters_not_bytes(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 3);

        table_add(table, "%s", "\303\244\303\266");
        table_add(table, "%d", 1);
        table_add(table, "%s", "x");
        table_add(table, "%s", "abcd");
        table_add(table, "%d", 1);
        table_add(table, "%s", "x");
        assert_prints(table, false,
                      "\303\244\303\266    1  x\n"
                      "abcd  1  x\n");
}

static void test_table_print_empty(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 3);

        assert_prints(table, true, "");
        assert_prints(table, false, "");
}

static void test_table_print_whole_rows(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 3);

        table_add(table, "%s", "half a row");
        assert_int_equal(table_n_rows(table), 0);
        assert_prints(table, false, "");
}

static void test_table_style_off_terminal(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 1);

        table_add(table, "%s", "bad");
        table_style(table, STYLE_BAD);
        assert_prints(table, true, "NAME\nbad\n");
}

static void test_table_add_many(void **state) {
        _cleanup_(table_freep) Table *table = table_new(columns, 1);

        for (size_t i = 0; i < 10000; ++i)
                table_add(table, "%zu", i);
        assert_int_equal(table_n_rows(table), 10000);
}

static void test_style_wanted_rules(void **state) {
        assert_true(style_wanted(true, "xterm", NULL));
        assert_true(style_wanted(true, "xterm", ""));
        assert_false(style_wanted(true, "xterm", "1"));
        assert_false(style_wanted(true, "dumb", NULL));
        assert_false(style_wanted(true, "", NULL));
        assert_false(style_wanted(true, NULL, NULL));
        assert_false(style_wanted(false, "xterm", NULL));
}

static void test_output_is_long_rows(void **state) {
        assert_false(output_is_long("", 0, 3));
        assert_false(output_is_long("a\nb\n", 4, 3));
        assert_true(output_is_long("a\nb\nc\n", 6, 3));
        /* a terminal that does not say */
        assert_false(output_is_long("a\nb\nc\n", 6, 0));
}

static void test_progress_format_total(void **state) {
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;
        char line[80];

        progress_format(line, sizeof(line), &progress);
        assert_string_equal(line, "working");

        progress.text = (char *) "walking";
        progress.done = 1;
        progress.total = 3;
        progress_format(line, sizeof(line), &progress);
        assert_string_equal(line, "walking 33%");

        progress.done = UINT64_MAX;
        progress_format(line, sizeof(line), &progress);
        assert_string_equal(line, "walking 100%");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table_print_aligned),
                cmocka_unit_test(test_table_print_narrow),
                cmocka_unit_test(test_table_print_cuts_text),
                cmocka_unit_test(test_table_select_columns),
                cmocka_unit_test(test_table_select_unknown),
                cmocka_unit_test(test_table_print_characters_not_bytes),
                cmocka_unit_test(test_table_print_empty),
                cmocka_unit_test(test_table_print_whole_rows),
                cmocka_unit_test(test_table_style_off_terminal),
                cmocka_unit_test(test_table_add_many),
                cmocka_unit_test(test_style_wanted_rules),
                cmocka_unit_test(test_output_is_long_rows),
                cmocka_unit_test(test_progress_format_total),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
