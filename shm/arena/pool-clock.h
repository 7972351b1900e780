#pragma once
/*
 * The pool's clock, by which entries expire: the time since the system booted, including suspension, to within a tick
 * of the kernel's (1 to 10 ms). It is the same in all processes. Reading it makes no system call, except for the exact
 * time on some machines. Setting the wall clock does not change it.
 */
#include <stdint.h>
#include <time.h>

#include "shm/arena/arena.h"

#define SHM_NS_PER_MS UINT64_C(1000000)

static inline uint64_t shm_clock_read(clockid_t clock) {
        struct timespec ts = {};

        clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * 1000 * SHM_NS_PER_MS + (uint64_t) ts.tv_nsec;
}

static inline uint64_t shm_clock_of(const ShmArena *arena, clockid_t clock) {
        /* ORDER: rlx; it changes when the system was suspended. */
        uint64_t offset_ms = shm_load_rlx(&arena->header->expiry.boot_offset_ms);

        return shm_clock_read(clock) + offset_ms * SHM_NS_PER_MS;
}

static inline uint64_t shm_clock_ns(const ShmArena *arena) {
        return shm_clock_of(arena, CLOCK_MONOTONIC_COARSE);
}

/*
 * Exact between two ticks, too, and never behind shm_clock_ns(). It is 20 ns slower, or makes a system call where the
 * kernel does not take its time from the processor (with hpet or acpi_pm).
 */
static inline uint64_t shm_clock_exact_ns(const ShmArena *arena) {
        return shm_clock_of(arena, CLOCK_MONOTONIC);
}

/* Corrects the offset after a suspension, which CLOCK_MONOTONIC does not count. Some writer calls this each second. */
static inline void shm_clock_renew(const ShmArena *arena) {
        uint64_t *offset_ms = &arena->header->expiry.boot_offset_ms;
        /* The later clock is read first: a pause between the two does not move the pool's forward. */
        uint64_t boot = shm_clock_read(CLOCK_BOOTTIME), ns = boot - shm_clock_read(CLOCK_MONOTONIC);
        /* ORDER: rlx; two at once store the same, but for some microseconds. */
        uint64_t before = shm_load_rlx(offset_ms);

        if ((int64_t) ns > 0 && ns / SHM_NS_PER_MS > before + 10)
                shm_store_rlx(offset_ms, ns / SHM_NS_PER_MS); /* ORDER: rlx; as above. */
}
