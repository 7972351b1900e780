#pragma once

/* What a terminal may be sent: nothing but plain text unless it is one, and its user allows it. */

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

/* Asked once, of stdout. The sequence to begin a style, "" where there is no colour. */
const char *style_begin(Style style);
const char *style_end(Style style);

/* Whether stdout gets colour. */
bool style_coloured(void);

/* Whether stderr can have a line written over and over. */
bool style_progress(void);
