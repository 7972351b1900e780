#pragma once

/* Did you mean? */

#include <stddef.h>

/*
 * The one of `words` that `word` was likely meant to be: begins with it, or is a few typing errors
 * away. NULL: none.
 */
const char *nearest_word(const char *word, const char *const *words, size_t n_words);
