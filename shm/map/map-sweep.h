#pragma once
/*
 * Sweeping all maps: entries that are stale, since their epoch was revoked, are taken out of the index, which shrinks
 * by that. For the maintainer, in steps, after each revocation.
 */
#include "shm/map/map.h"

typedef struct ShmMapSweep {
        uint32_t root; /* the named root that is looked at next */
        ShmTrieScan scan; /* where in its map */
        bool done;
} ShmMapSweep;

/* Looks at up to n entries. True: that was the last map. */
bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n);
