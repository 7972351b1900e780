#pragma once

/* Colours: plain text is all that goes to a pipe, to a dumb terminal, or to a user who set NO_COLOR. */

#include <stdbool.h>

typedef enum Style {
        STYLE_PLAIN,
        STYLE_HEADER,
        STYLE_GOOD,
        STYLE_WARN,
        STYLE_BAD,
        _STYLE_N,
} Style;

/* Whether a stream gets colour, given whether it is a terminal, $TERM and $NO_COLOR. */
bool style_wanted(bool terminal, const char *term, const char *no_color);

/* The sequence that begins a style; "" if stdout gets no colour, which is asked once. */
const char *style_begin(Style style);
const char *style_end(Style style);

/* Whether stdout gets colour. */
bool style_coloured(void);

/* Whether stderr can have a line written over and over. */
bool style_progress(void);
