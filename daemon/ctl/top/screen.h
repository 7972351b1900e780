#pragma once

/* The terminal, drawn by ncurses. There is one at a time. */

#include <stdint.h>

#include "daemon/ctl/top/view.h"

/* False: there is no such terminal as $TERM says. */
bool top_screen_begin(void);
void top_screen_end(void);

void top_screen_size(unsigned *ret_columns, unsigned *ret_rows);
void top_screen_draw(const TopLines *lines);

enum {
        TOP_KEY_NONE = -1, /* the time is over */
        TOP_KEY_RESIZE = -2,
        TOP_KEY_END = -3, /* interrupted, or the terminal is gone */
};

/* Waits at most so long for a key. */
int top_screen_key(uint64_t usec);
