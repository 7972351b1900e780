#pragma once

/* Deadlines on CLOCK_MONOTONIC. UINT64_MAX is never, as a time and as a duration. */

#include <stdint.h>
#include <time.h>

#define PROTO_USEC_PER_SEC UINT64_C(1000000)

static inline uint64_t proto_now_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * PROTO_USEC_PER_SEC + (uint64_t) now.tv_nsec / 1000;
}

static inline uint64_t proto_deadline(uint64_t timeout_usec) {
        uint64_t now = proto_now_usec();

        return timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
}

static inline uint64_t proto_deadline_left(uint64_t deadline_usec) {
        uint64_t now;

        if (deadline_usec == UINT64_MAX)
                return UINT64_MAX;

        now = proto_now_usec();
        return deadline_usec > now ? deadline_usec - now : 0;
}
