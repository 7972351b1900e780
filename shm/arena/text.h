#pragma once
/*
 * Text from the arena, for a terminal or a log: names and labels that any process of the pool may have
 * scribbled over.
 */
#include <stddef.h>
#include <stdint.h>

static inline int shm_text_misleads(uint32_t point) {
        static const struct {
                uint32_t first, last;
        } ranges[] = {
                { 0x061c, 0x061c }, { 0x200b, 0x200b }, { 0x200e, 0x200f }, { 0x2028, 0x202e },
                { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
        };

        for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
                if (point >= ranges[i].first && point <= ranges[i].last)
                        return 1;
        return 0;
}

/*
 * The length of the UTF-8 character at `s`, a terminated string, or 0 if the character is not clean. Refused are
 * C0, DEL, C1, overlong forms, surrogates, numbers above U+10FFFF, and characters with which one field of a table
 * could look like another: line and paragraph separators, bidirectional controls, and characters that nothing shows.
 * The joiners U+200C and U+200D are clean, as some languages need them.
 */
static inline size_t shm_text_character(const char *s) {
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
        return shm_text_misleads(point) ? 0 : n;
}

/* Replaces, in place, each byte that does not belong to a clean character by '?'. */
static inline void shm_text_clean(char *text) {
        while (*text) {
                size_t n = shm_text_character(text);

                if (n == 0)
                        *text = '?';
                text += n ? n : 1;
        }
}

/* Copies up to the first 0, at most size - 1 bytes, terminates the copy and cleans it. */
static inline void shm_text_copy(char *ret, const uint8_t *text, size_t size) {
        size_t i = 0;

        /* Each byte is loaded once: another process may change it between two loads. */
        for (; i + 1 < size && (ret[i] = (char) *(const volatile uint8_t *) &text[i]) != 0; i++)
                ;
        ret[i] = 0;
        shm_text_clean(ret);
}
