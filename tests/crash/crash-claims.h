#pragma once
/*
 * Workers that claim keys of a map, and are killed at random. Each notes the keys that it holds, in memory that
 * outlives it. A worker that gets a claim checks that no other live worker holds that key.
 */
#include <stdatomic.h>
#include <sys/types.h>
#include <tslab_map.h>

#define CLAIMS_KEYS 4

typedef struct Claims {
        _Atomic pid_t holders[CLAIMS_KEYS]; /* dead or alive; 0: none */
        _Atomic uint64_t n_claims, n_taken_over, n_waits;
        _Atomic uint64_t n_doubled; /* claims that another live worker held */
        _Atomic uint64_t n_lost; /* claims of live workers that were no more */
} Claims;

/* Makes the map, before any worker. */
void claims_begin(struct tslab *pool);
/* This worker's map; NULL: there is no memory, or no record, for it just now. */
struct tslab_map *claims_open(struct tslab *pool);
/* Gets, claims, waits, fulfils, gives up, deletes. Entries are in `epoch`. */
void claims_once(Claims *claims, struct tslab_map *map, uint32_t epoch, uint64_t random);
/* All workers are dead. Whether each key can be claimed, or has a value; deletes both. */
int claims_end(Claims *claims, struct tslab *pool, uint32_t epoch);
