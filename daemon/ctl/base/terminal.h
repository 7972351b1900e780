#pragma once

/* What stdout can show. */

#include <stdbool.h>

typedef struct TerminalSize {
        unsigned columns, rows;
} TerminalSize;

/* Of the terminal; where stdout is none, or does not say: $COLUMNS and $LINES, or 80 by 24. */
TerminalSize terminal_size(void);

/* How wide a table may be: as the terminal, 0 where stdout is none: then any width is right. */
unsigned terminal_table_width(void);

/* Whether more than ASCII can be shown, by the locale. */
bool terminal_is_utf8(void);
