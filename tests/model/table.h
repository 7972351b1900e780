#pragma once
/* Hashes, and a table of values by hash: open addressing, never removes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Entry {
        uint64_t hash; /* 0: none */
        union {
                double n; /* schedules from there; NAN: under way */
                struct { /* with a bound */
                        uint8_t n_preemptions; /* before it, at least */
                        uint8_t lasts, under_way; /* bits of the actors that went last then */
                };
        };
} Entry;

typedef struct Table {
        Entry *entries;
        uint64_t size, n;
} Table;

uint64_t table_mix(uint64_t a, uint64_t b);
uint64_t table_hash(uint64_t seed, const uint8_t *bytes, size_t size);

/* Empties it; for the first time, too. */
void table_reset(Table *t);
/* The entry of a hash, and whether it is new. Pointers returned before are void then. */
Entry *table_add(Table *t, uint64_t hash, bool *ret_new);
/* The entry of a hash that is there. */
Entry *table_find(Table *t, uint64_t hash);
