#pragma once
/*
 * A log-linear histogram of ticks: exact below 64, above it 64 buckets for each power of two, so a
 * percentile is off by at most 0.8 %. It lives in memory from bench_reserve(): adding faults no page.
 */
#include <stdint.h>

#include "bench/harness/clock.h"

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_SUB (1 << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_TOP 40 /* a longer time than 2^40 ticks counts as 2^40 */
#define HISTOGRAM_BUCKETS ((HISTOGRAM_TOP - HISTOGRAM_SUB_BITS + 2) * HISTOGRAM_SUB)

typedef struct Histogram {
        uint64_t n;
        uint64_t max;
        uint64_t sum;
        uint64_t counts[HISTOGRAM_BUCKETS];
} Histogram;

Histogram *histogram_new(void);

static inline uint32_t histogram_bucket(uint64_t ticks) {
        uint32_t shift;

        if (ticks < HISTOGRAM_SUB)
                return (uint32_t) ticks;
        if (ticks >> HISTOGRAM_TOP)
                ticks = (UINT64_C(1) << HISTOGRAM_TOP) - 1;
        shift = 63 - (uint32_t) __builtin_clzll(ticks) - HISTOGRAM_SUB_BITS;
        return (shift + 1) * HISTOGRAM_SUB + (uint32_t) ((ticks >> shift) & (HISTOGRAM_SUB - 1));
}

static inline void histogram_add(Histogram *h, uint64_t ticks) {
        h->counts[histogram_bucket(ticks)]++;
        h->n++;
        h->sum += ticks;
        if (ticks > h->max)
                h->max = ticks;
}

/* The middle of a bucket's values. */
double histogram_middle(uint32_t bucket);

/*
 * The ticks that a `fraction` of all readings are not above; 0 if there are none. A reading stands for the
 * clock's step around it, or for its bucket if that is wider; the readings in it count as spread evenly.
 */
double histogram_percentile(const Histogram *h, const Clock *clock, double fraction);

/* The mean of all readings up to the 99th percentile, which does not depend on interrupts. */
double histogram_mean99(const Histogram *h);

void histogram_merge(Histogram *into, const Histogram *from);
