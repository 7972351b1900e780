#pragma once

/* The size and the characters of the terminal on stdout, and answers to questions. */

#include <stdbool.h>

typedef struct TerminalSize {
        unsigned columns, rows;
} TerminalSize;

/* The size of the terminal. If stdout is none, or does not say: $COLUMNS and $LINES, or 80 by 24. */
TerminalSize terminal_size(void);

/*
 * The width that a table may have: that of the terminal, or 0, for any width, if stdout is no
 * terminal.
 */
unsigned terminal_table_width(void);

/* Whether the terminal shows more than ASCII, by the locale. */
bool terminal_is_utf8(void);

/* Reads the answer to a question that is on stderr: "y" or "yes" in a line. */
bool terminal_answers_yes(void);
