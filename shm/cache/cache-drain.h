#pragma once
/*
 * Emptying caches. In each call `record` is the actor's own record or, for the maintainer, a frozen record.
 */
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/* ShmCache.last: the last operation of the cache that changed slab words. */
enum { SHM_CACHE_LAST_NONE, SHM_CACHE_LAST_REFILL, SHM_CACHE_LAST_FLUSH };

static inline void shm_cache_set_count(ShmCache *cache, uint32_t n) {
        shm_store_rel(&cache->count, n); /* ORDER: rel; ids below are stored, ids above unused. */
}

/* Frees the top k slots of a cache. Returns how many slab words it changed. */
uint32_t shm_cache_flush(ShmActor *actor, uint32_t record, ShmCache *cache, uint32_t index, uint32_t k);
/* Releases the slab that is held for the cache. */
void shm_cache_release_held(ShmActor *actor, uint32_t record, ShmCache *cache);
/* Empties the next cache of these epochs (a bit for each id). A walk of zeros begins. False: no cache is left. */
bool shm_cache_drain_next(ShmActor *actor, uint32_t record, uint64_t epochs, ShmCacheWalk *walk);
/* Empties all caches of these epochs. */
void shm_cache_drain_record(ShmActor *actor, uint32_t record, uint64_t epochs);
