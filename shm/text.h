#pragma once
/*
 * Text from the arena: names and labels that anybody may have scribbled over, on their way to a
 * terminal or a log.
 */
#include <stddef.h>
#include <stdint.h>

/* Copies up to the first 0, at most size - 1 bytes; '?' stands for what is not printable ASCII. Terminates. */
static inline void shm_text_copy(char *ret, const uint8_t *text, size_t size) {
        size_t i = 0;

        for (; i + 1 < size; i++) {
                /* Once into a local: it may change between the test and the use. */
                uint8_t c = *(const volatile uint8_t *) &text[i];

                if (c == 0)
                        break;
                ret[i] = c >= 0x20 && c < 0x7f ? (char) c : '?';
        }
        ret[i] = 0;
}
