#pragma once
/*
 * Sweeping maps. Entries whose epoch was revoked are stale: a sweep takes them out of the index, which shrinks, and
 * counts the others. The maintainer sweeps in steps. It sweeps all maps after each revocation and, after a thread has
 * died in a change of a map, that map.
 */
#include "shm/map/entry/map.h"

/* Looks at up to n entries. True: that was the last map. */
bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n);

/*
 * All maps are to be swept. If a sweep is under way, it goes on to its end, and another one follows: entries that the
 * first one has passed may be stale by now.
 */
static inline void shm_map_sweeps_ask(ShmMapSweeps *sweeps) {
        sweeps->asked++;
}
/* The walk of the current map begins again at its first entry, with a new census. */
static inline void shm_map_sweep_begin_map(ShmMapSweep *sweep) {
        sweep->opened = false;
        sweep->scan = (ShmTrieScan){};
}
/* How many counts of maps were asked for so far, of all maps together, modulo 2^32. */
uint32_t shm_map_miscounts(const ShmArena *arena);
/*
 * True once request `asked` for a sweep of all maps, and all requests for counts up to number `miscounts`, are done:
 * sweeps->asked and shm_map_miscounts() count the requests.
 */
bool shm_map_sweeps_ended(const ShmMapSweeps *sweeps, uint64_t asked, uint32_t miscounts);
/* Whether a sweep is under way, or is wanted: of all maps, or only of the maps that are to be counted. */
bool shm_map_sweeps_due(const ShmArena *arena, const ShmMapSweeps *sweeps);
/* A step of the sweep that is due. */
void shm_map_sweeps_step(ShmActor *control, ShmMapSweeps *sweeps, uint32_t n);
