#include "bench/harness/histogram.h"

#include <math.h>

#include "bench/harness/memory.h"

Histogram *histogram_new(void) {
        return bench_reserve(sizeof(Histogram));
}

/* The number of values that fall into a bucket. */
static double bucket_width(uint32_t bucket) {
        return bucket < 2 * HISTOGRAM_SUB ? 1 : ldexp(1, (int) (bucket / HISTOGRAM_SUB - 1));
}

double histogram_middle(uint32_t bucket) {
        if (bucket < 2 * HISTOGRAM_SUB)
                return bucket;
        return (HISTOGRAM_SUB + bucket % HISTOGRAM_SUB + 0.5) * bucket_width(bucket) - 0.5;
}

double histogram_percentile(const Histogram *h, const Clock *clock, double fraction) {
        double rank = fraction * (double) h->n, below = 0, n, spread;

        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
                n = (double) h->counts[i];
                if (n == 0 || below + n < rank) {
                        below += n;
                        continue;
                }
                spread = fmax(bucket_width(i), (double) clock->step_ticks);
                return fmin(histogram_middle(i) + spread * ((rank - below) / n - 0.5), (double) h->max);
        }
        return 0;
}

double histogram_mean99(const Histogram *h) {
        double left = 0.99 * (double) h->n, sum = 0, n;

        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && left > 0; i++) {
                n = fmin((double) h->counts[i], left);
                sum += n * histogram_middle(i);
                left -= n;
        }
        return h->n ? sum / (0.99 * (double) h->n) : 0;
}

void histogram_merge(Histogram *into, const Histogram *from) {
        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
                into->counts[i] += from->counts[i];
        into->n += from->n;
        into->sum += from->sum;
        if (from->max > into->max)
                into->max = from->max;
}
