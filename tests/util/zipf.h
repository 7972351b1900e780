#pragma once
/* Draws from Zipf's distribution: key i of n with a probability like (i + 1)^-s. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct Zipf {
        double *sums;
        uint32_t n;
        uint64_t random;
} Zipf;

static inline void zipf_init(Zipf *z, uint32_t n, double s) {
        double sum = 0;

        *z = (Zipf){ .sums = calloc(n, sizeof(double)), .n = n, .random = UINT64_C(88172645463325252) };
        if (!z->sums)
                abort();
        for (uint32_t i = 0; i < n; i++)
                z->sums[i] = sum += pow(i + 1, -s);
}

static inline void zipf_deinit(Zipf *z) {
        free(z->sums);
}

static inline uint32_t zipf_draw(Zipf *z) {
        uint32_t low = 0, high = z->n - 1;
        double at;

        z->random ^= z->random << 13;
        z->random ^= z->random >> 7;
        z->random ^= z->random << 17;
        at = (double) (z->random >> 11) * 0x1p-53 * z->sums[z->n - 1];
        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (z->sums[middle] < at)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}
