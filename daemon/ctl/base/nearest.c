#include <string.h>

#include "daemon/ctl/base/nearest.h"

#define WORD_MAX 32
#define TOO_FAR 3 /* typing errors at which two words are different words */

static size_t least_of_three(size_t a, size_t b, size_t c) {
        size_t ab = a < b ? a : b;

        return ab < c ? ab : c;
}

/*
 * The Levenshtein distance: the number of letters to insert, drop or change. A word longer than
 * WORD_MAX is far from all others.
 */
static size_t word_distance(const char *a, const char *b) {
        size_t row[WORD_MAX + 1], n = strlen(b);

        if (strlen(a) > WORD_MAX || n > WORD_MAX)
                return TOO_FAR;

        for (size_t j = 0; j <= n; ++j)
                row[j] = j;

        for (size_t i = 0; a[i]; ++i) {
                size_t diagonal = row[0];

                row[0] = i + 1;
                for (size_t j = 0; j < n; ++j) {
                        size_t change = diagonal + (a[i] != b[j]);

                        diagonal = row[j + 1];
                        row[j + 1] = least_of_three(row[j] + 1, row[j + 1] + 1, change);
                }
        }
        return row[n];
}

const char *nearest_word(const char *word, const char *const *words, size_t n_words) {
        size_t best = TOO_FAR, n = strlen(word);
        const char *nearest = NULL;

        for (size_t i = 0; i < n_words; ++i) {
                size_t d = word_distance(word, words[i]);

                if (n >= 2 && !strncmp(word, words[i], n))
                        return words[i];
                /* two errors in a word of three letters would fit any word */
                if (d < best && d < strlen(words[i]) - 1) {
                        best = d;
                        nearest = words[i];
                }
        }
        return nearest;
}
