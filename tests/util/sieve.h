#pragma once
/*
 * SIEVE (Zhang et al., NSDI 2024) as its paper has it, on a queue: for comparisons. Entries have sizes, and the cache a
 * limit of their sum.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define SIEVE_NONE UINT32_MAX

typedef struct SieveEntry {
        uint32_t newer, older;
        uint32_t size; /* 0: absent */
        bool visited;
} SieveEntry;

typedef struct Sieve {
        SieveEntry *entries; /* by key */
        uint64_t limit, used;
        uint32_t newest, oldest, hand;
} Sieve;

static inline void sieve_init(Sieve *s, uint32_t n_keys, uint64_t limit) {
        *s = (Sieve){ .entries = calloc(n_keys, sizeof(SieveEntry)),
                      .limit = limit,
                      .newest = SIEVE_NONE,
                      .oldest = SIEVE_NONE,
                      .hand = SIEVE_NONE };
        if (!s->entries)
                abort();
}

static inline void sieve_deinit(Sieve *s) {
        free(s->entries);
}

static inline void sieve_evict(Sieve *s) {
        uint32_t key = s->hand == SIEVE_NONE ? s->oldest : s->hand;
        SieveEntry *e;

        while (s->entries[key].visited) {
                s->entries[key].visited = false;
                key = s->entries[key].newer == SIEVE_NONE ? s->oldest : s->entries[key].newer;
        }
        e = &s->entries[key];
        s->hand = e->newer;
        *(e->older == SIEVE_NONE ? &s->oldest : &s->entries[e->older].newer) = e->newer;
        *(e->newer == SIEVE_NONE ? &s->newest : &s->entries[e->newer].older) = e->older;
        s->used -= e->size;
        e->size = 0;
}

/* A get, and where it misses a put. Returns whether it hit. */
static inline bool sieve_use(Sieve *s, uint32_t key, uint32_t size) {
        SieveEntry *e = &s->entries[key];

        if (e->size != 0) {
                e->visited = true;
                return true;
        }
        while (s->used + size > s->limit && s->oldest != SIEVE_NONE)
                sieve_evict(s);
        *e = (SieveEntry){ .newer = SIEVE_NONE, .older = s->newest, .size = size };
        *(s->newest == SIEVE_NONE ? &s->oldest : &s->entries[s->newest].newer) = key;
        s->newest = key;
        s->used += size;
        return false;
}

/* Draws from Zipf's distribution: key i of n with a probability like (i + 1)^-s. */
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
