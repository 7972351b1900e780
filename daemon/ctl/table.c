#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/complain.h"
#include "daemon/ctl/table.h"

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

static void print_cell(const Table *table, FILE *out, size_t column, size_t width, const char *text,
                       Style style) {
        size_t text_n = text_width(text);
        int pad = (int) (width > text_n ? width - text_n : 0);
        bool right = table->columns[column].align == TABLE_RIGHT;
        bool last = column + 1 == table->n_columns;

        /* styles go around the text alone: underlined spaces look like a rule */
        (void) fprintf(out, "%*s%s%s%s", right ? pad : 0, "", style_begin(style), text, style_end(style));
        if (!last)
                (void) fprintf(out, "%*s", (right ? 0 : pad) + 2, "");
        else
                (void) fputc('\n', out);
}

void table_print(const Table *table, FILE *out, bool legend) {
        size_t *widths = must(calloc(table->n_columns, sizeof(*widths)));

        for (size_t i = 0; i < table->n_columns; ++i)
                widths[i] = column_width(table, i, legend);

        for (size_t i = 0; legend && i < table->n_columns; ++i)
                print_cell(table, out, i, widths[i], table->columns[i].title, STYLE_HEADER);

        for (size_t i = 0; i < table_n_rows(table) * table->n_columns; ++i)
                print_cell(table, out, i % table->n_columns, widths[i % table->n_columns],
                           cell_text(&table->cells[i]), table->cells[i].style);

        free(widths);
}
