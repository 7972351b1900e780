#pragma once

/*
 * Output to stdout. It is kept until a verb is done and then written at once, through a pager if it
 * is longer than the terminal. The reader may hang up at any time.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/base/complain.h"

/* Where verbs print. */
FILE *output_stream(void);

/* Prints the value, which is freed: indented on a terminal, else in one line. */
void output_json(json_object *value);

/* As output_json(), but in one line even on a terminal, for values that are followed by more. */
void output_json_line(json_object *value);

/*
 * Writes the output. CTL_FAILED after a complaint if that cannot be done; a reader who has gone is no
 * failure. Nothing may be printed later.
 */
CtlExit output_flush(void);

/*
 * Writes the output so far, without a pager; more may follow. *ret_gone: the reader has gone, and it
 * is time to end.
 */
CtlExit output_flush_part(bool *ret_gone);

/* Whether the text is worth a pager on a terminal with so many rows. */
bool output_is_long(const char *text, size_t size, unsigned rows);
