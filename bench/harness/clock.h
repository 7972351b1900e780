#pragma once
/*
 * Time in ticks of the processor's time stamp counter, which on the machines that we measure on has one
 * rate at every clock speed of the cores (constant_tsc, nonstop_tsc); on aarch64 of the system counter, which ticks
 * every 1 to 40 ns.
 *
 * Reading the clock takes time of its own. clock_init() measures the time between two readings with
 * nothing in between; latencies have it subtracted, and every result states it. Some processors let the
 * counter jump by more than one tick (26 on some, that is 10 ns): every result states that too, and
 * percentiles are interpolated within a jump.
 */
#include <stdint.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

typedef struct Clock {
        double ns_per_tick; /* against CLOCK_MONOTONIC_RAW */
        double cost_ticks; /* between two readings: the mean of many, without the slowest hundredth */
        uint64_t step_ticks; /* all readings differ by multiples of it */
} Clock;

/* Instructions before the reading end before it, and instructions after it begin after it. */
static inline uint64_t clock_now(void) {
        uint64_t ticks;
#ifdef __x86_64__
        unsigned int cpu;

        ticks = __rdtscp(&cpu);
        _mm_lfence();
#elif defined(__aarch64__)
        __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
#else
#error "the benchmarks have no clock for this processor"
#endif
        return ticks;
}

/* A turn of a loop that waits for another processor. */
static inline void clock_relax(void) {
#ifdef __x86_64__
        _mm_pause();
#else
        __asm__ volatile("isb" : : : "memory");
#endif
}

void clock_init(Clock *clock);

/* Nanoseconds of `ticks` between two readings, without the clock's own time; never below 0. */
static inline double clock_net_ns(const Clock *clock, double ticks) {
        return ticks > clock->cost_ticks ? (ticks - clock->cost_ticks) * clock->ns_per_tick : 0;
}
