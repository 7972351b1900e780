#include <assert.h>
#include <libsmartcols.h>
#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/view/table.h"

#define COLUMN_GAP "  "
#define COLUMN_GAP_WIDTH 2
#define EMPTY_CELL "-"

struct Table {
        const TableColumn *columns;
        size_t n_columns;
        struct libscols_table *scols;
        struct libscols_column **scols_columns; /* in the order of `columns`, however they are shown */
        struct libscols_line *line; /* that the last cell is in; NULL: no cell so far */
        size_t n_line_cells;
        bool selected; /* by the user */
};

/* libsmartcols returns 0 or a negative errno; with valid arguments, that is a lack of memory. */
static void must_succeed(int r) {
        if (r < 0)
                (void) must(NULL);
}

static void set_cell_style(struct libscols_cell *cell, Style style) {
        const char *sequence = style_begin(style);

        if (sequence[0])
                must_succeed(scols_cell_set_color(cell, sequence));
}

static void add_column(Table *table, size_t i) {
        static const int flags[] = {
                [TABLE_LEFT] = 0,
                [TABLE_RIGHT] = SCOLS_FL_RIGHT,
                [TABLE_TEXT] = SCOLS_FL_TRUNC,
        };
        const TableColumn *column = &table->columns[i];

        table->scols_columns[i] =
                must(scols_table_new_column(table->scols, column->title, 0, flags[column->align]));
        set_cell_style(scols_column_get_header(table->scols_columns[i]), STYLE_HEADER);
}

Table *table_new(const TableColumn *columns, size_t n_columns) {
        Table *table = must(calloc(1, sizeof(*table)));

        assert(n_columns > 0);
        table->columns = columns;
        table->n_columns = n_columns;
        table->scols = must(scols_new_table());
        table->scols_columns = must(calloc(n_columns, sizeof(table->scols_columns[0])));
        must_succeed(scols_table_set_column_separator(table->scols, COLUMN_GAP));
        must_succeed(scols_table_enable_colors(table->scols, style_coloured()));
        for (size_t i = 0; i < n_columns; ++i)
                add_column(table, i);
        return table;
}

Table *table_free(Table *table) {
        if (table) {
                scols_unref_line(table->line);
                scols_unref_table(table->scols);
                free(table->scols_columns);
                free(table);
        }
        return NULL;
}

static bool column_is_hidden(const Table *table, size_t i) {
        return scols_column_get_flags(table->scols_columns[i]) & SCOLS_FL_HIDDEN;
}

static void column_set_hidden(Table *table, size_t i, bool hidden) {
        int flags = scols_column_get_flags(table->scols_columns[i]) & ~SCOLS_FL_HIDDEN;

        must_succeed(scols_column_set_flags(table->scols_columns[i], flags | (hidden ? SCOLS_FL_HIDDEN : 0)));
}

static CtlExit complain_column(const Table *table, const char *name, size_t n) {
        char all[256] = "";

        for (size_t i = 0; i < table->n_columns; ++i) {
                (void) strncat(all, i ? ", " : "", sizeof(all) - strlen(all) - 1);
                (void) strncat(all, table->columns[i].title, sizeof(all) - strlen(all) - 1);
        }
        return complain_usage("there is no column '%.*s'; --columns takes some of: %s", (int) n, name, all);
}

static size_t find_column(const Table *table, const char *name, size_t n) {
        size_t i = 0;

        while (i < table->n_columns &&
               (strlen(table->columns[i].title) != n || strncasecmp(table->columns[i].title, name, n)))
                i++;
        return i;
}

CtlExit table_select(Table *table, const char *names) {
        struct libscols_column *previous = NULL;

        if (!names)
                return CTL_DONE;
        table->selected = true;
        for (size_t i = 0; i < table->n_columns; ++i)
                column_set_hidden(table, i, true);

        for (;;) {
                size_t n = strcspn(names, ","), i = find_column(table, names, n);

                if (i == table->n_columns)
                        return complain_column(table, names, n);
                if (column_is_hidden(table, i)) {
                        column_set_hidden(table, i, false);
                        must_succeed(
                                scols_table_move_column(table->scols, previous, table->scols_columns[i]));
                        previous = table->scols_columns[i];
                }
                if (!names[n])
                        return CTL_DONE;
                names += n + 1;
        }
}

static void begin_line(Table *table) {
        scols_unref_line(table->line);
        table->line = must(scols_new_line());
        must_succeed(scols_line_alloc_cells(table->line, table->n_columns));
        table->n_line_cells = 0;
}

void table_add(Table *table, const char *format, ...) {
        va_list arguments;
        char *text;

        va_start(arguments, format);
        text = must_format(format, arguments);
        va_end(arguments);

        if (!table->line || table->n_line_cells == table->n_columns)
                begin_line(table);
        must_succeed(scols_line_set_column_data(table->line, table->scols_columns[table->n_line_cells++],
                                                text[0] ? text : EMPTY_CELL));
        free(text);
        if (table->n_line_cells == table->n_columns)
                must_succeed(scols_table_add_line(table->scols, table->line));
}

void table_style(Table *table, Style style) {
        assert(table->n_line_cells > 0);
        set_cell_style(scols_line_get_column_cell(table->line, table->scols_columns[table->n_line_cells - 1]),
                       style);
}

size_t table_n_rows(const Table *table) {
        return scols_table_get_nlines(table->scols);
}

static bool column_is_empty(const Table *table, size_t column) {
        for (size_t row = 0; row < table_n_rows(table); ++row) {
                struct libscols_cell *cell = scols_line_get_column_cell(
                        scols_table_get_line(table->scols, row), table->scols_columns[column]);

                if (strcmp(scols_cell_get_data(cell), EMPTY_CELL) != 0)
                        return false;
        }
        return true;
}

/* The column to leave out next; n_columns: there is none. */
static size_t find_needless(const Table *table) {
        size_t found = table->n_columns;
        unsigned best = 0;

        for (size_t i = 0; i < table->n_columns; ++i) {
                unsigned rank = table->columns[i].rank;

                if (rank == 0 || column_is_hidden(table, i))
                        continue;
                if (column_is_empty(table, i))
                        rank += UINT16_MAX;
                if (rank >= best) {
                        best = rank;
                        found = i;
                }
        }
        return found;
}

static size_t line_width(const Table *table) {
        size_t n = 0;

        for (size_t i = 0; i < table->n_columns; ++i)
                if (!column_is_hidden(table, i))
                        n += scols_column_get_width(table->scols_columns[i]) + (n > 0 ? COLUMN_GAP_WIDTH : 0);
        return n;
}

/* The library knows the widths of columns only after it has printed, so it prints once for nobody. */
static void leave_out_columns(Table *table, unsigned width) {
        char *text = NULL;
        size_t i;

        must_succeed(scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_NEVER));
        must_succeed(scols_print_table_to_string(table->scols, &text));
        free(text);
        while (line_width(table) > width && (i = find_needless(table)) < table->n_columns)
                column_set_hidden(table, i, true);
}

static void print_left_out(const Table *table, FILE *out) {
        size_t n = 0;

        for (size_t i = 0; i < table->n_columns; ++i)
                if (column_is_hidden(table, i))
                        (void) fprintf(out, "%s%s", n++ ? ", " : "No room for ", table->columns[i].title);
        if (n > 0)
                (void) fprintf(out, ".\n");
}

/* The library makes columns as wide as their titles even where it prints none. */
static void set_headings(Table *table, bool legend) {
        must_succeed(scols_table_enable_noheadings(table->scols, !legend));
        for (size_t i = 0; i < table->n_columns && !legend; ++i)
                must_succeed(scols_cell_set_data(scols_column_get_header(table->scols_columns[i]), ""));
}

static void print_within(Table *table, FILE *out, unsigned width) {
        if (width > 0 && !table->selected)
                leave_out_columns(table, width);
        must_succeed(scols_table_set_termforce(table->scols,
                                               width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER));
        must_succeed(scols_table_set_termwidth(table->scols, width));
        must_succeed(scols_table_set_stream(table->scols, out));
        must_succeed(scols_print_table(table->scols));
}

void table_print(Table *table, FILE *out, bool legend, unsigned width) {
        /* All text that tslabctl shows is UTF-8, and the library counts by the locale. */
        locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
        locale_t before = utf8 ? uselocale(utf8) : (locale_t) 0;

        set_headings(table, legend);
        if (table_n_rows(table) > 0)
                print_within(table, out, width);
        if (legend && !table->selected)
                print_left_out(table, out);
        if (utf8) {
                (void) uselocale(before);
                freelocale(utf8);
        }
}
