#pragma once

/*
 * Text that crosses the socket: valid UTF-8 without control characters, so that it may be shown on
 * a terminal and written to a log as it is. Names of processes and roots are arbitrary bytes: send
 * them through proto_text_clean().
 */

#include <stdbool.h>
#include <stddef.h>

/* True when `text` is at most `max` bytes (without the final 0) of such text. NULL counts as "". */
bool proto_text_is_clean(const char *text, size_t max);

/*
 * Copies at most `size` - 1 bytes of `text` to `ret`, always ended by 0. Each byte that
 * proto_text_is_clean() refuses becomes '?'; no character is cut in two. NULL counts as "".
 */
void proto_text_clean(char *ret, size_t size, const char *text);
