#pragma once

/*
 * Tables of text, drawn by libsmartcols, which lsblk(8) and findmnt(8) use too. Cells are added row
 * by row; the widest one makes the width of its column.
 *
 *      static const TableColumn columns[] = { { "POOL", TABLE_LEFT, 0 }, { "SIZE", TABLE_RIGHT, 1 } };
 *      _cleanup_(table_freep) Table *table = table_new(columns, 2);
 *
 *      table_add(table, "default");
 *      table_add(table, "%u", 12);
 *      table_print(table, out, true, 80);
 *
 * This file adds two things to the library: on a narrow terminal a column of numbers is left out
 * as a whole, because half a number is a wrong one; and an empty cell is shown as "-".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/style.h"

typedef enum TableAlign {
        TABLE_LEFT,
        TABLE_RIGHT,
        TABLE_TEXT, /* left; may be cut at its end where a line is too long */
} TableAlign;

typedef struct TableColumn {
        const char *title;
        TableAlign align;
        unsigned rank; /* where there is no room for all, the highest goes first; 0: none of these */
} TableColumn;

typedef struct Table Table;

/* `columns` must outlive the table. */
Table *table_new(const TableColumn *columns, size_t n_columns);
/* NULL-safe, returns NULL. */
Table *table_free(Table *table);

/*
 * Shows only the columns that a user lists, as "pool,size", and in that order; all where `names` is
 * NULL. Cells are still added for every column. CTL_USAGE after a complaint.
 */
CtlExit table_select(Table *table, const char *names);

/* The next cell; shown as "-" where empty. A row appears when it has all of its cells. */
__attribute__((format(printf, 2, 3))) void table_add(Table *table, const char *format, ...);
/* How the cell last added looks. */
void table_style(Table *table, Style style);
size_t table_n_rows(const Table *table);

/*
 * Prints the rows; above them the titles if `legend`; nothing where there are no rows. Where a line
 * would be wider than `width` (0: a line may have any width), columns are left out by rank, empty
 * ones first, and then text is cut; with `legend`, a last line names the columns left out. Columns
 * that the user selected are not left out.
 */
void table_print(Table *table, FILE *out, bool legend, unsigned width);

static inline void table_freep(Table **table) {
        (void) table_free(*table);
}
