#pragma once

/* The numbers of a pool at one moment, as lines of text that fit the screen. */

#include "daemon/ctl/base/style.h"
#include "daemon/ctl/top/rows.h"

#define TOP_COLUMNS_LEAST 16U
#define TOP_ROWS_LEAST 4U

typedef struct TopState {
        TopView view;
        size_t sort[_TOP_VIEW_N];
        bool reverse;
        bool help;
        bool bare; /* the rows alone */
        TopAverages averages;
        const char *pool;
        const char *trouble; /* why there are no new numbers; NULL: there are */
} TopState;

typedef struct TopLines {
        char **lines;
        Style *styles;
        size_t n_lines;
} TopLines;

void top_state_init(TopState *state);
/* Handles a key; false: it ends the program. */
bool top_state_key(TopState *state, int key);

/* `now` may have no sample yet. `rows` 0: there is no limit. */
void top_view_make(TopLines *ret, const TopState *state, const TopSample *before, const TopSample *now,
                   unsigned columns, unsigned rows, uint64_t now_usec);
void top_lines_deinit(TopLines *lines);
