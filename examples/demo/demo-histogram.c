#include "examples/demo/demo-histogram.h"

#define PER_POWER (UINT64_C(1) << HISTOGRAM_SHIFT)

/* Below 2 * PER_POWER a bucket is one value; above, the leading bits say which bucket it is. */
static unsigned bucket_of(uint64_t value) {
        unsigned shift;

        if (value < 2 * PER_POWER)
                return (unsigned) value;
        shift = 63 - (unsigned) __builtin_clzll(value) - HISTOGRAM_SHIFT;
        return (shift << HISTOGRAM_SHIFT) + (unsigned) (value >> shift);
}

static uint64_t bucket_end(unsigned bucket) {
        unsigned shift;

        if (bucket < 2 * PER_POWER)
                return bucket;
        shift = (bucket >> HISTOGRAM_SHIFT) - 1;
        return (((bucket & (PER_POWER - 1)) + PER_POWER + 1) << shift) - 1;
}

void histogram_add(Histogram *h, uint64_t value) {
        ++h->buckets[bucket_of(value)];
        ++h->n;
        if (value > h->max)
                h->max = value;
}

void histogram_merge(Histogram *h, const Histogram *other) {
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; ++i)
                h->buckets[i] += other->buckets[i];
        h->n += other->n;
        if (other->max > h->max)
                h->max = other->max;
}

uint64_t histogram_quantile(const Histogram *h, uint64_t per_million) {
        /* Rounded up: of ten values, p99 is the tenth. */
        uint64_t rank = (uint64_t) (((__uint128_t) h->n * per_million + 999999) / 1000000), below = 0;

        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; ++i) {
                below += h->buckets[i];
                if (below >= rank && below > 0)
                        return bucket_end(i) < h->max ? bucket_end(i) : h->max;
        }
        return 0;
}
