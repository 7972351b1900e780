#pragma once
/*
 * SIEVE (Zhang et al., NSDI 2024) as its paper has it, on a queue: for comparisons. Entries have sizes, and the cache a
 * limit of their sum.
 */
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
