#pragma once
/*
 * High-water marks of the pool. A scan over the arena raises them about once a second, and when clients wake the
 * daemon, which they do when they need more memory. The marks are kept in the arena and so outlive this daemon.
 */
#include "daemon/pool.h"
#include "shm/stats/high-water.h"

typedef struct HighWater HighWater;

int high_water_new(HighWater **ret_marks, Pool *pool);
/* NULL-safe, returns NULL. */
HighWater *high_water_free(HighWater *marks);

/* Begins a scan, unless one is under way or has just ended. */
void high_water_scan(HighWater *marks);

/* The marks begin anew with the next scan. */
void high_water_reset(HighWater *marks);

const ShmHighWater *high_water_get(const HighWater *marks);
/* Sampled allocations by (size - 1) / SHM_CLASS_GRANULE, SHM_GRANULES_MAX counts, since this daemon started. */
const uint64_t *high_water_requested_sizes(const HighWater *marks);
