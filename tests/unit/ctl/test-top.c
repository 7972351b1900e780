/* Rates and rows of top, from samples made by hand; the lines it draws at several sizes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/ctl/top/view.h"

typedef struct Made {
        Tslab__StatsReply stats;
        Tslab__ClassInfo classes[3], *pointers[3];
        Tslab__Counters counters;
        ProtoReply reply;
        TopClient clients[2];
        TopSample sample;
} Made;

static void make(Made *made, uint64_t usec, uint64_t allocs, const uint64_t live[3]) {
        *made = (Made){};
        tslab__stats_reply__init(&made->stats);
        tslab__counters__init(&made->counters);
        tslab__reply__init(&made->reply);
        for (uint32_t i = 0; i < 3; ++i) {
                tslab__class_info__init(&made->classes[i]);
                made->classes[i].size = 64 << i;
                made->classes[i].slots = 64 >> i;
                made->classes[i].slabs = 10;
                made->classes[i].live_objects = live[i];
                made->pointers[i] = &made->classes[i];
        }
        made->counters.allocs = allocs;
        made->stats.counters = &made->counters;
        made->stats.classes = made->pointers;
        made->stats.n_classes = 3;
        made->stats.size_bytes = 16 << 20;
        made->reply.stats = &made->stats;
        made->clients[0] = (TopClient){ .client = 1, .pid = 11, .allocs = allocs, .attached_usec = 5 };
        made->clients[1] = (TopClient){ .client = 2, .pid = 12, .allocs = 4 * allocs, .attached_usec = 6 };
        made->sample = (TopSample){ usec, &made->reply, made->clients, 2 };
}

static void test_rate(void **state) {
        Made a, b;

        make(&a, 1000000, 100, (uint64_t[]){ 1, 2, 3 });
        make(&b, 1500000, 300, (uint64_t[]){ 1, 2, 3 });
        assert_true(top_rate(&a.sample, &b.sample, 100, 300) == 400);
        assert_true(top_rate(&a.sample, &b.sample, 300, 100) == 0);
        assert_true(top_change(&a.sample, &b.sample, 300, 100) == -400);
        /* nothing to compare with: none before, no time between, another arena */
        assert_true(top_rate(&(TopSample){}, &b.sample, 0, 300) == 0);
        assert_true(top_rate(&b.sample, &b.sample, 0, 300) == 0);
        b.stats.arena_id = (ProtobufCBinaryData){ 16, (uint8_t *) "0123456789abcdef" };
        assert_true(top_rate(&a.sample, &b.sample, 100, 300) == 0);
}

/* A steady rate is its own average; after a change the short average is nearest to the new rate. */
static void test_averages(void **state) {
        TopAverages averages = {};
        Made a, b;
        uint64_t allocs = 1000;

        for (uint64_t second = 1; second <= 700; ++second) {
                make(&a, second * 1000000, allocs, (uint64_t[]){ 1, 2, 3 });
                allocs += second <= 650 ? 100 : 200;
                make(&b, (second + 1) * 1000000, allocs, (uint64_t[]){ 1, 2, 3 });
                top_averages_add(&averages, &a.sample, &b.sample);
                if (second <= 650)
                        for (size_t i = 0; i < TOP_SPANS; ++i)
                                assert_true(averages.rates[TOP_ALLOCS][i] > 99.99 &&
                                            averages.rates[TOP_ALLOCS][i] < 100.01);
        }
        /* 50 seconds at 200: 1 - 0.9^50, 1 - (59/60)^50, 1 - (599/600)^50 of the way */
        assert_in_range((uint64_t) averages.rates[TOP_ALLOCS][0], 199, 200);
        assert_in_range((uint64_t) averages.rates[TOP_ALLOCS][1], 155, 158);
        assert_in_range((uint64_t) averages.rates[TOP_ALLOCS][2], 107, 109);
        assert_true(averages.rates[TOP_HITS][0] == 0);

        /* another arena */
        b.stats.arena_id = (ProtobufCBinaryData){ 16, (uint8_t *) "0123456789abcdef" };
        top_averages_add(&averages, &a.sample, &b.sample);
        assert_true(averages.rates[TOP_ALLOCS][0] == 0 && averages.seconds == 0);
}

/* AGE is the time since the epoch was opened, closed or not, as in `epoch list`. */
static void test_rows_epoch_age(void **state) {
        Tslab__EpochInfo epoch = TSLAB__EPOCH_INFO__INIT, *epochs[] = { &epoch };
        TopRows rows;
        size_t n, age = 0;
        const TopColumn *columns = top_columns(TOP_EPOCHS, &n);
        Made a;

        make(&a, 1000000, 0, (uint64_t[]){ 10, 10, 10 });
        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING;
        epoch.opened_usec = 1000000;
        epoch.closed_usec = 61000000;
        a.stats.epochs = epochs;
        a.stats.n_epochs = 1;
        while (strcmp(columns[age].title, "AGE"))
                age++;
        top_rows_make(&rows, TOP_EPOCHS, &a.sample, &a.sample, 91000000);
        assert_string_equal(rows.rows[0].cells[age].text, "1min 30s");
        top_rows_deinit(&rows);
}

static void test_rows_sort(void **state) {
        Made a, b;
        TopRows rows;

        make(&a, 1000000, 0, (uint64_t[]){ 10, 10, 10 });
        make(&b, 2000000, 0, (uint64_t[]){ 5, 40, 20 });
        top_rows_make(&rows, TOP_CLASSES, &a.sample, &b.sample, 0);
        assert_int_equal(rows.n_rows, 3);
        assert_string_equal(rows.rows[0].cells[2].text, "-5");
        assert_string_equal(rows.rows[1].cells[2].text, "30");
        top_rows_sort(&rows, TOP_CLASSES, 1, false);
        assert_string_equal(rows.rows[0].cells[0].text, "128");
        assert_string_equal(rows.rows[2].cells[0].text, "64");
        top_rows_sort(&rows, TOP_CLASSES, 1, true);
        assert_string_equal(rows.rows[0].cells[0].text, "64");
        top_rows_sort(&rows, TOP_CLASSES, 0, false);
        assert_string_equal(rows.rows[2].cells[0].text, "256");
        top_rows_deinit(&rows);
}

/* A new client at an index that was another's has no rate yet. */
static void test_rows_client_index_reused(void **state) {
        Made a, b;
        TopRows rows;

        make(&a, 1000000, 100, (uint64_t[]){ 0, 0, 0 });
        make(&b, 2000000, 300, (uint64_t[]){ 0, 0, 0 });
        b.clients[1].attached_usec = 99;
        top_rows_make(&rows, TOP_CLIENTS, &a.sample, &b.sample, 0);
        assert_string_equal(rows.rows[0].cells[1].text, "200");
        assert_string_equal(rows.rows[1].cells[1].text, "0");
        top_rows_deinit(&rows);
}

static void test_format_number(void **state) {
        static const struct {
                double number;
                const char *text;
        } cases[] = {
                { 0, "0" },       { 0.3, "0" },          { 999, "999" },     { 999.6, "1.0k" },
                { 1234, "1.2k" }, { -1234567, "-1.2M" }, { 123456, "123k" }, { 99.96e3, "100k" },
        };
        char buffer[32];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
                assert_string_equal(top_format_number(buffer, sizeof(buffer), cases[i].number),
                                    cases[i].text);
}

/* No line is longer, and there are no more, than the screen has room for. */
static void test_view_fits(void **state) {
        Made a, b;
        TopState top;

        make(&a, 1000000, 100, (uint64_t[]){ 1, 2, 3 });
        make(&b, 2000000, 300, (uint64_t[]){ 1, 2, 3 });
        top_state_init(&top);
        top.pool = "web";
        top.view = TOP_CLASSES;
        for (unsigned columns = 1; columns < 100; ++columns)
                for (unsigned rows = 1; rows < 20; ++rows) {
                        TopLines lines;

                        top_view_make(&lines, &top, &a.sample, &b.sample, columns, rows, 0);
                        assert_in_range(lines.n_lines, 1, rows);
                        for (size_t i = 0; i < lines.n_lines; ++i)
                                assert_in_range(strlen(lines.lines[i]), 0, columns);
                        if (columns < TOP_COLUMNS_LEAST || rows < TOP_ROWS_LEAST)
                                assert_memory_equal(lines.lines[0], "too small", columns < 9 ? columns : 10);
                        top_lines_deinit(&lines);
                }
}

/* The numbers at the head that do not fit are left out: none is cut in two. */
static void test_view_cut(void **state) {
        TopLines all, lines;
        TopState top;
        Made a, b;

        make(&a, 1000000, 100, (uint64_t[]){ 1, 2, 3 });
        make(&b, 2000000, 300, (uint64_t[]){ 1, 2, 3 });
        top_state_init(&top);
        top.pool = "web";
        for (unsigned columns = 60; columns > 30; --columns) {
                top_view_make(&all, &top, &a.sample, &b.sample, columns < 60 ? 59 : 200, 0, 0);
                top_view_make(&lines, &top, &a.sample, &b.sample, columns, 0, 0);
                for (size_t i = 0; i < 3; ++i) {
                        size_t n = strlen(lines.lines[i]);

                        assert_memory_equal(lines.lines[i], all.lines[i], n);
                        assert_true(all.lines[i][n] == ',' || all.lines[i][n] == '\0');
                }
                top_lines_deinit(&lines);
                top_lines_deinit(&all);
        }
}

static void test_state_key(void **state) {
        TopState top;

        top_state_init(&top);
        assert_true(top_state_key(&top, 'c'));
        assert_int_equal(top.view, TOP_CLIENTS);
        assert_true(top_state_key(&top, '<'));
        assert_true(top_state_key(&top, '<'));
        assert_int_equal(top.sort[TOP_CLIENTS], 8);
        assert_true(top_state_key(&top, '>'));
        assert_int_equal(top.sort[TOP_CLIENTS], 0);
        assert_true(top_state_key(&top, '?'));
        assert_true(top.help);
        assert_true(top_state_key(&top, 'q')); /* leaves the help */
        assert_false(top_state_key(&top, 'q'));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rate),
                cmocka_unit_test(test_rows_epoch_age),
                cmocka_unit_test(test_averages),
                cmocka_unit_test(test_rows_sort),
                cmocka_unit_test(test_rows_client_index_reused),
                cmocka_unit_test(test_format_number),
                cmocka_unit_test(test_view_fits),
                cmocka_unit_test(test_view_cut),
                cmocka_unit_test(test_state_key),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
