#pragma once

/* The rows of the tables that `tslabctl top` shows, made from two samples. Nothing here depends on a screen. */

#include "daemon/ctl/top/sample.h"

typedef enum TopView {
        TOP_EPOCHS,
        TOP_CLASSES,
        TOP_CLIENTS,
        TOP_MAPS,
        _TOP_VIEW_N,
} TopView;

#define TOP_COLUMNS_MAX 11
#define TOP_CELL_SIZE 48

typedef struct TopColumn {
        const char *title;
        unsigned width; /* at least */
        bool left;
        bool ascending; /* how it is sorted at first */
} TopColumn;

typedef struct TopCell {
        char text[TOP_CELL_SIZE];
        double number; /* for sorting; cells without a number are compared as texts */
} TopCell;

typedef struct TopRow {
        TopCell cells[TOP_COLUMNS_MAX];
} TopRow;

typedef struct TopRows {
        TopRow *rows;
        size_t n_rows;
} TopRows;

/* The columns of a view, the most telling first: a narrow screen shows the columns that fit. */
const TopColumn *top_columns(TopView view, size_t *ret_n);
/* The column that a view is sorted by at first. */
size_t top_default_sort(TopView view);

void top_rows_make(TopRows *ret, TopView view, const TopSample *before, const TopSample *now,
                   uint64_t now_usec);
/* Sorts by one column; rows that are equal in it keep their order. */
void top_rows_sort(TopRows *rows, TopView view, size_t column, bool reverse);
void top_rows_deinit(TopRows *rows);

/* "12", "3.4k", "-1.2M": in powers of 1000, as counts are written. */
char *top_format_number(char *buffer, size_t size, double number);
