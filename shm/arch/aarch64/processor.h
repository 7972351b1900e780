#pragma once
/*
 * Instructions of aarch64 for atomic.h. Loads and stores are ordered only as they say, and neither a
 * read-modify-write nor a pair of exclusives is a full barrier.
 */
#include <stdbool.h>
#include <stdint.h>

#define PROCESSOR_LACKS "this processor is not known" /* all have exclusives of 16 bytes */

/* Whether it can compare and set 16 bytes at once. */
bool processor_has_cas16(void);

/* Whether it has compare-and-swap of pairs (LSE); set before main(). */
extern bool processor_has_casp;

/* Whether an aligned load of a pair is whole (LSE2); set before main(). */
extern bool processor_has_load16;

static inline void processor_fence_after_rmw(void) {
        __asm__ volatile("dmb ish" : : : "memory");
}

/* Two instructions: of a count in a signal handler that comes between them, and this one, one is lost. */
static inline void processor_count(uint64_t *p) {
        *(volatile uint64_t *) p = *(volatile uint64_t *) p + 1;
}

/*
 * Loads 16 bytes at once. False: it cannot. A load of a pair has no order of its own, so a barrier keeps all that
 * follows behind it; an ldar would, besides, wait for stores of this thread that are release. A read-only mapping will
 * do.
 */
__attribute__((no_sanitize("thread"))) static inline bool processor_load16_acq(const uint64_t *p,
                                                                               uint64_t *ret_low,
                                                                               uint64_t *ret_high) {
        if (!__builtin_expect(processor_has_load16, 1))
                return false;
        __asm__ volatile("ldp %0, %1, %2\n\tdmb ishld"
                         : "=&r"(*ret_low), "=&r"(*ret_high)
                         : "Q"(*(const unsigned __int128 *) (const void *) p)
                         : "memory");
        return true;
}

/* The system counter runs at 1 MHz to 1 GHz; the result at some 3 GHz, as a time-stamp counter of x86-64. */
static inline uint64_t processor_ticks(void) {
        uint64_t ticks, frequency;

        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
        return ticks * (frequency ? UINT64_C(3000000000) / frequency : 1);
}

/* As long as `yield` should take, and does not on processors without threads of a core. */
static inline void processor_relax(void) {
        __asm__ volatile("isb" : : : "memory");
}

/* casp needs two even register pairs. */
__attribute__((no_sanitize("thread"))) static inline bool processor_casp(uint64_t *p, uint64_t *expected,
                                                                         uint64_t low, uint64_t high) {
        register uint64_t was_low __asm__("x0") = expected[0], was_high __asm__("x1") = expected[1];
        register uint64_t new_low __asm__("x2") = low, new_high __asm__("x3") = high;
        uint64_t want_low = expected[0], want_high = expected[1];

        __asm__ volatile(".arch_extension lse\n\tcaspal %0, %1, %3, %4, %2"
                         : "+r"(was_low), "+r"(was_high), "+Q"(*(unsigned __int128 *) (void *) p)
                         : "r"(new_low), "r"(new_high)
                         : "memory");
        expected[0] = was_low;
        expected[1] = was_high;
        return was_low == want_low && was_high == want_high;
}

/*
 * Where the values differ, what was read is stored again: without a store-exclusive that succeeds, the two halves might
 * be of two times. A failure of the exclusive alone is tried again.
 */
__attribute__((no_sanitize("thread"))) static inline bool processor_cas16_acqrel(uint64_t *p,
                                                                                 uint64_t *expected,
                                                                                 uint64_t low,
                                                                                 uint64_t high) {
        uint64_t was_low, was_high, put_low, put_high;
        uint32_t failed;
        bool same;

        if (__builtin_expect(processor_has_casp, 1))
                return processor_casp(p, expected, low, high);
        do {
                __asm__ volatile("ldaxp %0, %1, %2"
                                 : "=&r"(was_low), "=&r"(was_high)
                                 : "Q"(*(unsigned __int128 *) (void *) p)
                                 : "memory");
                same = was_low == expected[0] && was_high == expected[1];
                put_low = same ? low : was_low;
                put_high = same ? high : was_high;
                __asm__ volatile("stlxp %w0, %2, %3, %1"
                                 : "=&r"(failed), "=Q"(*(unsigned __int128 *) (void *) p)
                                 : "r"(put_low), "r"(put_high)
                                 : "memory");
        } while (failed);
        expected[0] = was_low;
        expected[1] = was_high;
        return same;
}
