#pragma once
/*
 * Reading bytes that another process may be overwriting at the same time. The reader checks the tag
 * afterwards, which says whether the bytes belonged to its object. This data race is intended.
 * ThreadSanitizer would report it, and intercepts memcpy() and memcmp(): a build with it uses the loops
 * below, which it does not instrument.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/arch/atomic.h"

#ifdef SHM_TSAN

__attribute__((no_sanitize("thread"))) static inline void shm_racy_copy(void *to, const void *from,
                                                                        size_t size) {
        for (size_t i = 0; i < size; i++)
                ((volatile uint8_t *) to)[i] = ((const volatile uint8_t *) from)[i];
}

__attribute__((no_sanitize("thread"))) static inline bool shm_racy_equal(const void *a, const void *b,
                                                                         size_t size) {
        for (size_t i = 0; i < size; i++)
                if (((const volatile uint8_t *) a)[i] != ((const volatile uint8_t *) b)[i])
                        return false;
        return true;
}

#else

static inline void shm_racy_copy(void *to, const void *from, size_t size) {
        memcpy(to, from, size);
}

static inline bool shm_racy_equal(const void *a, const void *b, size_t size) {
        return memcmp(a, b, size) == 0;
}

#endif

/* To a caller's buffer, which may be NULL for no bytes. memcpy() does not allow that. */
static inline void shm_racy_copy_out(void *buffer, const void *from, size_t size) {
        if (size > 0)
                shm_racy_copy(buffer, from, size);
}
