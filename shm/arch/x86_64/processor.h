#pragma once
/*
 * Instructions of x86-64 for atomic.h. All loads are acquire there and all stores release, and a read-modify-write is a
 * locked instruction, which is a full barrier.
 */
#include <stdbool.h>
#include <stdint.h>

#define PROCESSOR_LACKS "this processor has no 16-byte compare-and-set (cmpxchg16b)"

/* Whether it can compare and set 16 bytes at once. */
bool processor_has_cas16(void);

/* A locked instruction was the barrier already. */
static inline void processor_fence_after_rmw(void) {
        __asm__ volatile("" : : : "memory");
}

/* A single instruction without a lock prefix: a signal handler's count is not lost. */
static inline void processor_count(uint64_t *p) {
        __asm__ volatile("incq %0" : "+m"(*p));
}

/* Loads 16 bytes at once. False: it cannot. Loads of AVX are whole on most processors, and no faster than three. */
static inline bool processor_load16_acq(const uint64_t *p, uint64_t *ret_low, uint64_t *ret_high) {
        (void) p, (void) ret_low, (void) ret_high;
        return false;
}

static inline uint64_t processor_ticks(void) {
        return __builtin_ia32_rdtsc();
}

static inline void processor_relax(void) {
        __builtin_ia32_pause();
}

/* Inline assembly because gcc's builtin calls libatomic: see shm_local_pair_cas_acqrel(). */
__attribute__((no_sanitize("thread"))) static inline bool processor_cas16_acqrel(uint64_t *p,
                                                                                 uint64_t *expected,
                                                                                 uint64_t low,
                                                                                 uint64_t high) {
        bool done;

        __asm__ volatile("lock cmpxchg16b %1"
                         : "=@ccz"(done), "+m"(*(unsigned __int128 *) (void *) p), "+a"(expected[0]),
                           "+d"(expected[1])
                         : "b"(low), "c"(high)
                         : "memory");
        return done;
}
