#pragma once
/* Cleanup attributes and the clock. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <stdint.h>

#define _cleanup_(_f) __attribute__((__cleanup__(_f)))

static inline void freep(void *p) {
        free(*(void **) p);
}

static inline void closep(int *fd) {
        if (*fd >= 0)
                (void) close(*fd);
}

static inline uint64_t now_ns(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}
