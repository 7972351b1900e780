#pragma once
/* Times in microseconds. */
#include <stdint.h>
#include <time.h>

static inline uint64_t shm_usec_of(clockid_t clock) {
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

/* The time since 1970, as it is stored in the arena for people to read. */
static inline uint64_t shm_now_usec(void) {
        return shm_usec_of(CLOCK_REALTIME);
}

/* For waits of one process: others may be in another time namespace. */
static inline uint64_t shm_monotonic_usec(void) {
        return shm_usec_of(CLOCK_MONOTONIC);
}
