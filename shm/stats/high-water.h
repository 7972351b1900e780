#pragma once
/* High-water marks: of what shm/stats/stats.h counts, the most there ever was. */
#include "shm/stats/stats.h"

/* What is higher than before. `now_usec`: realtime. */
void shm_high_water_raise(ShmHighWater *marks, const ShmStats *stats, uint64_t now_usec);
/* From and to the header, whatever stands there: it is for people only. */
void shm_high_water_load(const ShmArena *arena, ShmHighWater *ret);
void shm_high_water_store(const ShmArena *arena, const ShmHighWater *marks);
