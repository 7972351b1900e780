#pragma once
/*
 * Sweeping maps: entries that are stale, since their epoch was revoked, are taken out of the index, which shrinks by
 * that, and the others are counted. For the maintainer, in steps: all maps after each revocation, and those in a change
 * of which a thread died.
 */
#include "shm/map/map.h"

typedef struct ShmMapSweep {
        uint32_t root; /* the named root that is looked at next */
        bool opened; /* it names a map, which is swept: */
        ShmTrieScan scan;
        ShmMapCensus census;
        bool miscounted_only;
        bool done;
} ShmMapSweep;

/* Whether there is a map that is to be counted. */
bool shm_map_sweep_wanted(const ShmArena *arena);

/* Looks at up to n entries. True: that was the last map. */
bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n);
