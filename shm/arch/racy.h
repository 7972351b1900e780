#pragma once
/*
 * Reading what another process may be overwriting meanwhile: the tag tells afterwards whether the
 * bytes were an object's. That is a data race by intent, which ThreadSanitizer is told here, once:
 * it intercepts memcpy() and memcmp(), so its build has loops of its own.
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
