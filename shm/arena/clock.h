#pragma once
/* Wall-clock time as it is stored in the arena for people to read: microseconds since 1970. */
#include <stdint.h>
#include <time.h>

static inline uint64_t shm_now_usec(void) {
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}
