#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "proto/text.h"

/*
 * The length of the clean character at `s`, which ends by 0, or 0 if there is none. Refused: C0,
 * DEL, C1, overlong forms, surrogates, beyond U+10FFFF, and the line and paragraph separators and
 * bidirectional controls, with which one field of a table can pass for another.
 */
static size_t clean_character(const char *s) {
        const uint8_t *p = (const uint8_t *) s;
        uint32_t point;
        size_t n;

        if (p[0] < 0x80)
                return p[0] >= 0x20 && p[0] != 0x7f;

        if (p[0] >= 0xc2 && p[0] <= 0xdf)
                n = 2;
        else if (p[0] >= 0xe0 && p[0] <= 0xef)
                n = 3;
        else if (p[0] >= 0xf0 && p[0] <= 0xf4)
                n = 4;
        else
                return 0;

        point = p[0] & (0xffU >> (n + 1));
        for (size_t i = 1; i < n; ++i) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                point = point << 6 | (p[i] & 0x3f);
        }

        if (point < 0xa0)
                return 0;
        if (n == 3 && (point < 0x800 || (point >= 0xd800 && point <= 0xdfff)))
                return 0;
        if (n == 4 && (point < 0x10000 || point > 0x10ffff))
                return 0;
        if ((point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069))
                return 0;

        return n;
}

bool proto_text_is_clean(const char *text, size_t max) {
        size_t i = 0;

        if (!text)
                return true;

        while (text[i] && i <= max) {
                size_t n = clean_character(text + i);

                if (n == 0)
                        return false;
                i += n;
        }

        return i <= max;
}

void proto_text_clean(char *ret, size_t size, const char *text) {
        size_t i = 0, j = 0;

        assert(size > 0);

        while (text && text[i]) {
                size_t n = clean_character(text + i), n_copy = n ?: 1;

                if (j + n_copy >= size)
                        break;
                if (n)
                        memcpy(ret + j, text + i, n);
                else
                        ret[j] = '?';
                i += n_copy;
                j += n_copy;
        }

        ret[j] = '\0';
}
