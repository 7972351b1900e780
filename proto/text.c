#include <assert.h>
#include <string.h>

#include "proto/text.h"
#include "shm/arena/text.h"

bool proto_text_is_clean(const char *text, size_t max) {
        size_t i = 0;

        if (!text)
                return true;

        while (text[i] && i <= max) {
                size_t n = shm_text_character(text + i);

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
                size_t n = shm_text_character(text + i), n_copy = n ?: 1;

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
