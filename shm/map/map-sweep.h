#pragma once
/*
 * Sweeping maps: entries that are stale, since their epoch was revoked, are taken out of the index, which shrinks by
 * that, and the others are counted. For the maintainer, in steps: all maps after each revocation, and those in a change
 * of which a thread died.
 */
#include "shm/map/map.h"

/* Looks at up to n entries. True: that was the last map. */
bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n);

/*
 * All maps are to be swept. A sweep that is under way is ended first: what it passed over may be stale by now, and
 * another one follows.
 */
static inline void shm_map_sweeps_ask(ShmMapSweeps *sweeps) {
        sweeps->asked++;
}
/* The walk of a map begins at its first entry, and its census with it. */
static inline void shm_map_sweep_begin_map(ShmMapSweep *sweep) {
        sweep->opened = false;
        sweep->scan = (ShmTrieScan){};
}
/* How often a map was to be counted, modulo 2^32. */
uint32_t shm_map_miscounts(const ShmArena *arena);
/* Whether all maps were swept since `asked` was this, and those counted that were to be since `miscounts` was this. */
bool shm_map_sweeps_ended(const ShmMapSweeps *sweeps, uint64_t asked, uint32_t miscounts);
/* Whether one is under way or wanted: of all maps, or of those that are to be counted. Any sweep counts these. */
bool shm_map_sweeps_due(const ShmArena *arena, const ShmMapSweeps *sweeps);
/* A step of the sweep that is due. */
void shm_map_sweeps_step(ShmActor *control, ShmMapSweeps *sweeps, uint32_t n);
