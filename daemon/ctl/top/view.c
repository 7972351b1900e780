#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/top/view.h"

void top_state_init(TopState *state) {
        *state = (TopState){};
        for (TopView view = 0; view < _TOP_VIEW_N; ++view)
                state->sort[view] = top_default_sort(view);
}

static void move_sort(TopState *state, int by) {
        size_t n, *sort = &state->sort[state->view];

        (void) top_columns(state->view, &n);
        *sort = (*sort + n + (size_t) by) % n;
}

bool top_state_key(TopState *state, int key) {
        bool help = state->help;

        state->help = false;
        switch (key) {
        case 'q':
        case 'Q':
                return help; /* the first one leaves the help */
        case 'e':
                state->view = TOP_EPOCHS;
                break;
        case 'l':
                state->view = TOP_CLASSES;
                break;
        case 'c':
                state->view = TOP_CLIENTS;
                break;
        case 'm':
                state->view = TOP_MAPS;
                break;
        case '<':
                move_sort(state, -1);
                break;
        case '>':
                move_sort(state, 1);
                break;
        case 'r':
        case 'R':
                state->reverse = !state->reverse;
                break;
        case '?':
        case 'h':
                state->help = !help;
                break;
        }
        return true;
}

/* The last ", " of a text, or NULL. */
static char *find_comma(char *text) {
        char *found = NULL;

        while ((text = strstr(text, ", ")))
                found = text++;
        return found;
}

/*
 * Cuts a text to `columns` characters, each as wide as one column. Of a list, whole parts stay: half
 * a number is a wrong one.
 */
static void cut_line(char *text, unsigned columns) {
        unsigned n = 0;
        char *end = text, *comma;
        bool between;

        for (; *end; ++end)
                if (((unsigned char) *end & 0xc0) != 0x80 && n++ == columns)
                        break;
        if (!*end)
                return;
        between = *end == ',';
        *end = '\0';
        comma = between ? NULL : find_comma(text);
        if (comma)
                *comma = '\0';
}

__attribute__((format(printf, 4, 5))) static void add_line(TopLines *lines, unsigned columns, Style style,
                                                           const char *format, ...) {
        va_list arguments;
        char *text;

        va_start(arguments, format);
        text = must_format(format, arguments);
        va_end(arguments);
        cut_line(text, columns);
        lines->lines = must(realloc(lines->lines, (lines->n_lines + 1) * sizeof(*lines->lines)));
        lines->styles = must(realloc(lines->styles, (lines->n_lines + 1) * sizeof(*lines->styles)));
        lines->styles[lines->n_lines] = style;
        lines->lines[lines->n_lines++] = text;
}

void top_lines_deinit(TopLines *lines) {
        for (size_t i = 0; i < lines->n_lines; ++i)
                free(lines->lines[i]);
        free(lines->lines);
        free(lines->styles);
        *lines = (TopLines){};
}

#define NUMBER(_number) top_format_number(FORMAT_BUFFER, FORMAT_SIZE, (_number))

static void add_memory(TopLines *lines, unsigned columns, const Tslab__StatsReply *stats) {
        uint64_t used = stats_used_bytes(stats);
        unsigned width = columns < 60 ? 8 : 24;

        add_line(lines, columns, STYLE_PLAIN, "%s %s of %s, %s free, %s live",
                 format_bar(FORMAT_BUFFER, width, used, stats->retained_bytes, stats->size_bytes),
                 format_bytes(FORMAT_BUFFER, used), format_bytes(FORMAT_BUFFER, stats->size_bytes),
                 format_bytes(FORMAT_BUFFER, stats->retained_bytes),
                 format_bytes(FORMAT_BUFFER, stats->live_bytes));
}

static void add_rates(TopLines *lines, unsigned columns, const TopSample *before, const TopSample *now) {
        static const Tslab__Counters none = TSLAB__COUNTERS__INIT;
        const Tslab__Counters *a = before->reply ? top_stats(before)->counters ?: &none : &none;
        const Tslab__Counters *b = top_stats(now)->counters ?: &none;
        uint64_t allocs = b->allocs > a->allocs ? b->allocs - a->allocs : 0;
        uint64_t hits = b->alloc_hits > a->alloc_hits ? b->alloc_hits - a->alloc_hits : 0;

        if (!top_comparable(before, now)) {
                add_line(lines, columns, STYLE_PLAIN, "%s", "counting...");
                return;
        }
        add_line(lines, columns, STYLE_PLAIN,
                 "%s allocs/s, %s frees/s, %u%% cached, %s refills/s, %s failed/s, "
                 "%s too large/s",
                 NUMBER(top_rate(before, now, a->allocs, b->allocs)),
                 NUMBER(top_rate(before, now, a->frees, b->frees)),
                 allocs ? (unsigned) (100 * (double) (hits < allocs ? hits : allocs) / (double) allocs) : 0,
                 NUMBER(top_rate(before, now, a->refills, b->refills)),
                 NUMBER(top_rate(before, now, a->failures, b->failures)),
                 NUMBER(top_rate(before, now, a->too_large + a->values_too_large,
                                 b->too_large + b->values_too_large)));
}

static void add_averages(TopLines *lines, unsigned columns, const TopAverages *averages) {
        char texts[_TOP_AVERAGED_N][64];

        for (TopAveraged what = 0; what < _TOP_AVERAGED_N; ++what)
                (void) snprintf(texts[what], sizeof(texts[what]), "%s %s %s %s/s",
                                NUMBER(averages->rates[what][0]), NUMBER(averages->rates[what][1]),
                                NUMBER(averages->rates[what][2]), top_averaged_names[what]);
        add_line(lines, columns, STYLE_PLAIN, "over %u %u %u s: %s, %s, %s, %s", top_spans[0], top_spans[1],
                 top_spans[2], texts[TOP_ALLOCS], texts[TOP_FREES], texts[TOP_HITS], texts[TOP_MISSES]);
}

static void add_head(TopLines *lines, unsigned columns, unsigned rows, const TopState *state,
                     const TopSample *before, const TopSample *now) {
        const Tslab__StatsReply *stats = top_stats(now);

        add_line(lines, columns, STYLE_GOOD, "%s: %s, %s, up %s", state->pool,
                 format_count(FORMAT_BUFFER, stats->clients, "client", "clients"),
                 format_count(FORMAT_BUFFER, stats->threads, "record", "records"),
                 format_span(FORMAT_BUFFER, stats->uptime_usec));
        add_memory(lines, columns, stats);
        add_rates(lines, columns, before, now);
        if (rows == 0 || rows >= 10)
                add_averages(lines, columns, &state->averages);
}

/* The number of columns that fit, at least one. */
static size_t n_fitting(const TopColumn *columns, size_t n, unsigned width) {
        unsigned used = 0;
        size_t i;

        for (i = 0; i < n; ++i) {
                used += columns[i].width + (i > 0);
                if (used > width)
                        break;
        }
        return i > 0 ? i : 1;
}

static void append_cell(char *line, size_t size, const TopColumn *column, const char *text, bool last) {
        size_t n = strlen(line), n_text = 0;
        int pad;

        for (const char *p = text; *p; ++p)
                n_text += ((unsigned char) *p & 0xc0) != 0x80;
        pad = n_text < column->width ? (int) (column->width - n_text) : 0;
        (void) snprintf(line + n, size - n, "%*s%s%*s%s", column->left ? 0 : pad, "", text,
                        column->left && !last ? pad : 0, "", last ? "" : " ");
}

static void add_table(TopLines *lines, unsigned width, unsigned rows, const TopState *state,
                      const TopRows *table) {
        size_t n_all, n;
        const TopColumn *columns = top_columns(state->view, &n_all);
        char line[TOP_COLUMNS_MAX * (TOP_CELL_SIZE + 16)] = "";

        n = n_fitting(columns, n_all, width);
        for (size_t i = 0; i < n; ++i)
                append_cell(line, sizeof(line), &columns[i], columns[i].title, i + 1 == n);
        if (!state->bare)
                add_line(lines, width, STYLE_HEADER, "%s", line);

        for (size_t row = 0; row < table->n_rows && (rows == 0 || lines->n_lines < rows); ++row) {
                line[0] = '\0';
                for (size_t i = 0; i < n; ++i)
                        append_cell(line, sizeof(line), &columns[i], table->rows[row].cells[i].text,
                                    i + 1 == n);
                add_line(lines, width, STYLE_PLAIN, "%s", line);
        }
}

static void add_help(TopLines *lines, unsigned columns) {
        static const char *const texts[] = {
                "e  epochs",
                "l  size classes",
                "c  clients",
                "m  maps",
                "<  sort by the column before",
                ">  sort by the next column",
                "r  turn the order around",
                "?  this help; any key leaves it",
                "q  quit",
                "",
                "OBJ/S is by how many live objects changed.",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i)
                add_line(lines, columns, STYLE_PLAIN, "%s", texts[i]);
}

static void add_body(TopLines *lines, unsigned columns, unsigned rows, const TopState *state,
                     const TopSample *before, const TopSample *now, uint64_t now_usec) {
        static const char *const names[_TOP_VIEW_N] = { "epochs", "classes", "clients", "maps" };
        size_t n, sort = state->sort[state->view];
        const TopColumn *all = top_columns(state->view, &n);
        TopRows table;

        /* a screen with few rows shows the table alone */
        if (!state->bare && (rows == 0 || rows >= 8))
                add_head(lines, columns, rows, state, before, now);
        if (!state->bare)
                add_line(lines, columns, STYLE_PLAIN, "%s by %s%s%s", names[state->view], all[sort].title,
                         state->reverse ? ", turned around" : "", rows > 0 ? "; ? for help" : "");

        top_rows_make(&table, state->view, before, now, now_usec);
        top_rows_sort(&table, state->view, sort, state->reverse);
        add_table(lines, columns, rows, state, &table);
        top_rows_deinit(&table);
}

void top_view_make(TopLines *ret, const TopState *state, const TopSample *before, const TopSample *now,
                   unsigned columns, unsigned rows, uint64_t now_usec) {
        *ret = (TopLines){};
        if (columns < TOP_COLUMNS_LEAST || (rows > 0 && rows < TOP_ROWS_LEAST)) {
                add_line(ret, columns, STYLE_WARN, "%s", "too small");
                return;
        }
        if (state->trouble)
                add_line(ret, columns, STYLE_BAD, "%s", state->trouble);
        if (state->help)
                add_help(ret, columns);
        else if (now->reply)
                add_body(ret, columns, rows, state, before, now, now_usec);
}
