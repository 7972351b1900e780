#include "tests/util/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t seed_get(void) {
        static uint64_t seed;
        const char *given = getenv("TSLAB_TEST_SEED");

        if (seed != 0)
                return seed;
        if (given)
                seed = strtoull(given, NULL, 0);
        else if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
                abort();
        seed = seed ?: 1;
        fprintf(stderr, "TSLAB_TEST_SEED=%llu\n", (unsigned long long) seed);
        return seed;
}

/* splitmix64 */
uint64_t seed_next(uint64_t *state) {
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

uint32_t seed_below(uint64_t *state, uint32_t n) {
        return (uint32_t) ((seed_next(state) >> 32) * n >> 32);
}

bool seed_full(void) {
        const char *full = getenv("TSLAB_TEST_FULL");

        return full && full[0] && full[0] != '0';
}
