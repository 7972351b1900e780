#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/complain.h"
#include "daemon/ctl/view/table.h"

#define GAP 2 /* between columns */

typedef struct TableCell {
        char *text;
        Style style;
} TableCell;

struct Table {
        const TableColumn *columns;
        size_t n_columns;
        TableCell *cells;
        size_t n_cells, n_allocated;
};

Table *table_new(const TableColumn *columns, size_t n_columns) {
        Table *table = must(calloc(1, sizeof(*table)));

        assert(n_columns > 0);
        table->columns = columns;
        table->n_columns = n_columns;
        return table;
}

Table *table_free(Table *table) {
        if (table) {
                for (size_t i = 0; i < table->n_cells; ++i)
                        free(table->cells[i].text);
                free(table->cells);
                free(table);
        }
        return NULL;
}

void table_add(Table *table, const char *format, ...) {
        va_list arguments;
        char *text = NULL;
        int n;

        if (table->n_cells == table->n_allocated) {
                table->n_allocated = table->n_allocated * 2 + 64;
                table->cells = must(realloc(table->cells, table->n_allocated * sizeof(table->cells[0])));
        }

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);

        table->cells[table->n_cells++] = (TableCell){ .text = must(n < 0 ? NULL : text) };
}

void table_style(Table *table, Style style) {
        assert(table->n_cells > 0);
        table->cells[table->n_cells - 1].style = style;
}

size_t table_n_rows(const Table *table) {
        return table->n_cells / table->n_columns;
}

static const char *cell_text(const TableCell *cell) {
        return cell->text[0] ? cell->text : "-";
}

/* Characters, so that a label in UTF-8 does not shift the rest; wide and combining ones still do. */
static size_t text_width(const char *text) {
        size_t n = 0;

        for (; *text; ++text)
                n += ((unsigned char) *text & 0xc0) != 0x80;
        return n;
}

static size_t column_width(const Table *table, size_t column, bool legend) {
        size_t width = legend ? text_width(table->columns[column].title) : 0;

        for (size_t row = 0; row < table_n_rows(table); ++row) {
                size_t n = text_width(cell_text(&table->cells[row * table->n_columns + column]));

                if (n > width)
                        width = n;
        }
        return width;
}

static bool column_is_empty(const Table *table, size_t column) {
        for (size_t row = 0; row < table_n_rows(table); ++row)
                if (table->cells[row * table->n_columns + column].text[0])
                        return false;
        return true;
}

/* Which to leave out next; n_columns: none. A width of 0 is one that is left out. */
static size_t find_needless(const Table *table, const size_t *widths) {
        size_t found = table->n_columns;
        unsigned best = 0;

        for (size_t i = 0; i < table->n_columns; ++i) {
                unsigned rank = table->columns[i].rank;

                if (rank == 0 || widths[i] == 0)
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

static size_t line_width(const Table *table, const size_t *widths) {
        size_t n = 0;

        for (size_t i = 0; i < table->n_columns; ++i)
                if (widths[i] > 0)
                        n += widths[i] + (n > 0 ? GAP : 0);
        return n;
}

static void fit(const Table *table, size_t *widths, unsigned width) {
        size_t i;

        while (width > 0 && line_width(table, widths) > width) {
                i = find_needless(table, widths);
                if (i == table->n_columns)
                        return;
                widths[i] = 0;
        }
}

static void print_left_out(const Table *table, FILE *out, const size_t *widths) {
        size_t n = 0;

        for (size_t i = 0; i < table->n_columns; ++i)
                if (widths[i] == 0)
                        (void) fprintf(out, "%s%s", n++ ? ", " : "No room for ", table->columns[i].title);
        if (n > 0)
                (void) fprintf(out, ".\n");
}

static void print_cell(const Table *table, FILE *out, size_t column, size_t width, const char *text,
                       Style style) {
        size_t text_n = text_width(text);
        int pad = (int) (width > text_n ? width - text_n : 0);
        bool right = table->columns[column].align == TABLE_RIGHT;

        /* styles go around the text alone: underlined spaces look like a rule */
        (void) fprintf(out, "%*s%s%s%s", right ? pad : 0, "", style_begin(style), text, style_end(style));
}

/* Nothing comes after the last text: no spaces either. */
static void print_gap(const Table *table, FILE *out, size_t column, size_t width, const char *text) {
        size_t text_n = text_width(text);
        size_t pad = table->columns[column].align == TABLE_LEFT && width > text_n ? width - text_n : 0;

        (void) fprintf(out, "%*s", (int) pad + GAP, "");
}

static void print_row(const Table *table, FILE *out, const size_t *widths, const TableCell *cells) {
        size_t previous = table->n_columns;

        for (size_t i = 0; i < table->n_columns; ++i) {
                if (widths[i] == 0)
                        continue;
                if (previous < table->n_columns)
                        print_gap(table, out, previous, widths[previous], cell_text(&cells[previous]));
                print_cell(table, out, i, widths[i], cell_text(&cells[i]), cells[i].style);
                previous = i;
        }
        (void) fputc('\n', out);
}

static void print_titles(const Table *table, FILE *out, const size_t *widths) {
        TableCell *titles = must(calloc(table->n_columns, sizeof(*titles)));

        for (size_t i = 0; i < table->n_columns; ++i)
                titles[i] = (TableCell){ .text = (char *) table->columns[i].title, .style = STYLE_HEADER };
        print_row(table, out, widths, titles);
        free(titles);
}

void table_print(const Table *table, FILE *out, bool legend, unsigned width) {
        size_t *widths = must(calloc(table->n_columns, sizeof(*widths)));

        for (size_t i = 0; i < table->n_columns; ++i)
                widths[i] = column_width(table, i, legend);
        fit(table, widths, width);

        if (legend)
                print_titles(table, out, widths);
        for (size_t row = 0; row < table_n_rows(table); ++row)
                print_row(table, out, widths, &table->cells[row * table->n_columns]);
        if (legend)
                print_left_out(table, out, widths);
        free(widths);
}
