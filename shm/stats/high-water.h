#pragma once
/* High-water marks: the maximum so far of each figure that shm/stats/stats.h counts. */
#include "shm/stats/stats.h"

/* Raises the marks that `stats` exceeds. `now_usec`: realtime. */
void shm_high_water_raise(ShmHighWater *marks, const ShmStats *stats, uint64_t now_usec);
/* Copy the marks from and to the header, where they may be garbage: they are for people to read. */
void shm_high_water_load(const ShmArena *arena, ShmHighWater *ret);
void shm_high_water_store(const ShmArena *arena, const ShmHighWater *marks);
