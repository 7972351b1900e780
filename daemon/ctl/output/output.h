#pragma once

/*
 * What goes to stdout. It is kept until a verb is done and then written at once, through a pager if
 * it is longer than the terminal. Who reads it may hang up at any time.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/base/complain.h"

/* Where verbs print. */
FILE *output_stream(void);

/* Prints the value, which is freed: indented on a terminal, else in one line. */
void output_json(json_object *value);

/* The same in one line, wherever it goes: for what is followed by more. */
void output_json_line(json_object *value);

/*
 * Writes what was printed. CTL_FAILED if that cannot be, and says so, but not where the reader has
 * gone. Nothing may be printed later.
 */
CtlExit output_flush(void);

/*
 * Writes what was printed so far, without a pager; more may follow. *ret_gone: nobody reads any
 * more, and it is time to end.
 */
CtlExit output_flush_part(bool *ret_gone);

/* Whether so much text is worth a pager on a terminal with so many rows. */
bool output_is_long(const char *text, size_t size, unsigned rows);
