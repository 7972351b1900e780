#pragma once
/* The clock of bounds. It goes on while the machine is suspended, and nobody sets it. */
#include <stdint.h>
#include <time.h>

#define USEC_PER_MS UINT64_C(1000)

static inline uint64_t now_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_BOOTTIME, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}
