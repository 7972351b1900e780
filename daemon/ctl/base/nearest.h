#pragma once

/* Finds the word that a user may have meant. */

#include <stddef.h>

/*
 * Returns the word that begins with `word` or is a few typing errors away from it; NULL: there is
 * none.
 */
const char *nearest_word(const char *word, const char *const *words, size_t n_words);
