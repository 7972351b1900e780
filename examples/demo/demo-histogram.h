#pragma once
/*
 * A log-linear histogram of nanoseconds: every power of two is cut into 32 buckets, so a quantile is
 * at most 3 % too high at any size. Recording is an addition to one counter; histograms of
 * several writers are merged by adding them up.
 */
#include <stdint.h>

#define HISTOGRAM_SHIFT 5 /* 2^5 buckets a power of two */
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SHIFT + 1) << HISTOGRAM_SHIFT)

typedef struct Histogram {
        uint64_t n;
        uint64_t max;
        uint64_t buckets[HISTOGRAM_BUCKETS];
} Histogram;

void histogram_add(Histogram *h, uint64_t value);
void histogram_merge(Histogram *h, const Histogram *other);
/* The least upper end of a bucket that at least `per_million` of all values are not above; 0 of none. */
uint64_t histogram_quantile(const Histogram *h, uint64_t per_million);
