#pragma once
/*
 * The pool's clock, by which entries expire: the time since the host booted, including suspension, to within a tick of
 * the kernel's (1 to 10 ms). It is the same in all processes, whatever their time namespaces, and goes on through
 * suspensions and settings of the wall clock. Reading it makes no system call, except for the exact time on some
 * machines.
 *
 * CLOCK_BOOTTIME has no variant that is as fast as the clocks of ticks, and each time namespace has another one. So a
 * process finds out how far the pool's clock is ahead of its CLOCK_MONOTONIC, and keeps that. It counts for as long as
 * CLOCK_REALTIME keeps its distance to CLOCK_MONOTONIC, which is exact to the nanosecond. A suspension changes that
 * distance, and so do a setting of the wall clock and another time namespace: then the process looks again.
 */
#include <stdint.h>
#include <time.h>

#include "shm/arch/atomic.h"

struct ShmArena;

#define SHM_NS_PER_MS UINT64_C(1000000)
#define SHM_NS_PER_S UINT64_C(1000000000)

typedef struct ShmClock {
        ShmPair lead; /* ahead of CLOCK_MONOTONIC: by low the pool's clock, by high CLOCK_REALTIME; 0: not known */
        uint64_t tick; /* by CLOCK_MONOTONIC_COARSE, when `lead` was last found to count */
} ShmClock;

/* This process's. */
extern ShmClock shm_clock;

static inline uint64_t shm_clock_read(clockid_t clock) {
        struct timespec ts = {};

        clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * SHM_NS_PER_S + (uint64_t) ts.tv_nsec;
}

uint64_t shm_clock_next_tick(void);

/* `arena` is for tests that have a clock of their own. */
static inline uint64_t shm_clock_ns(const struct ShmArena *arena) {
        uint64_t real = shm_clock_read(CLOCK_REALTIME_COARSE), high, low, tick;

        (void) arena;
        /* ORDER: acq; high, low, tick, high: if the loads of high agree, the pair belongs together. */
        high = shm_local_load_acq(&shm_clock.lead.high);
        low = shm_local_load_acq(&shm_clock.lead.low); /* ORDER: acq; as above. */
        tick = shm_local_load_acq(&shm_clock.tick); /* ORDER: acq; as above. */
        /* ORDER: acq; as above. */
        if (__builtin_expect(real - high == tick && shm_local_load_acq(&shm_clock.lead.high) == high, 1))
                return tick + low;
        return shm_clock_next_tick();
}

/*
 * Exact between two ticks, too, and never behind shm_clock_ns(). It is 20 ns slower, or makes a system call where the
 * kernel does not take its time from the processor (with hpet or acpi_pm).
 */
static inline uint64_t shm_clock_exact_ns(const struct ShmArena *arena) {
        uint64_t high, low, real;

        do {
                high = shm_local_load_acq(&shm_clock.lead.high); /* ORDER: acq; as in shm_clock_ns(). */
                low = shm_local_load_acq(&shm_clock.lead.low); /* ORDER: acq; as above. */
                real = shm_clock_read(CLOCK_REALTIME);
                (void) shm_clock_ns(arena); /* finds a jump that came before this reading */
                /* ORDER: acq; as above. */
        } while (__builtin_expect(shm_local_load_acq(&shm_clock.lead.high) != high, 0));
        return real - high + low;
}
