#pragma once

/*
 * Tables of text. Cells are added row by row; the widest one makes the width of its column.
 *
 *      static const TableColumn columns[] = { { "POOL", TABLE_LEFT, 0 }, { "SIZE", TABLE_RIGHT, 1 } };
 *      _cleanup_(table_freep) Table *table = table_new(columns, 2);
 *
 *      table_add(table, "default");
 *      table_add(table, "%u", 12);
 *      table_print(table, out, true, 80);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/ctl/view/style.h"

typedef enum TableAlign {
        TABLE_LEFT,
        TABLE_RIGHT,
} TableAlign;

typedef struct TableColumn {
        const char *title;
        TableAlign align;
        unsigned rank; /* where there is no room for all, the highest goes first; 0: none of these */
} TableColumn;

typedef struct Table Table;

/* `columns` must stay. */
Table *table_new(const TableColumn *columns, size_t n_columns);
/* NULL-safe, returns NULL. */
Table *table_free(Table *table);

/* The next cell; shown as "-" where empty. */
__attribute__((format(printf, 2, 3))) void table_add(Table *table, const char *format, ...);
/* How the cell last added looks. */
void table_style(Table *table, Style style);
size_t table_n_rows(const Table *table);

/*
 * The rows, whole ones only; above them the titles if `legend`. Of lines wider than `width` (0: any
 * may be), columns are left out by rank, first those that are empty; with `legend`, a last line
 * names them.
 */
void table_print(const Table *table, FILE *out, bool legend, unsigned width);

static inline void table_freep(Table **table) {
        (void) table_free(*table);
}
