#pragma once
/*
 * Emptying caches. In each, `record` is the actor's own, or one that is frozen and control's.
 */
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/* ShmCache.last: what was done last by way of the slab words. */
enum { SHM_CACHE_LAST_NONE, SHM_CACHE_LAST_REFILL, SHM_CACHE_LAST_FLUSH };

static inline void shm_cache_set_count(ShmCache *cache, uint32_t n) {
        shm_store_rel(&cache->count, n); /* ORDER: rel; the ids below are there, those above are done with. */
}

/* Gives back the top k of a cache. Returns how many slab words that took. */
uint32_t shm_cache_flush(ShmActor *actor, uint32_t record, ShmCache *cache, uint32_t index, uint32_t k);
/* Gives up the slab that is held for it. */
void shm_cache_release_held(ShmActor *actor, uint32_t record, ShmCache *cache);
/* Empties the next cache of these epochs, a bit for each. False: there is none. Zeros begin the walk. */
bool shm_cache_drain_next(ShmActor *actor, uint32_t record, uint64_t epochs, ShmCacheWalk *walk);
/* Empties them all. */
void shm_cache_drain_record(ShmActor *actor, uint32_t record, uint64_t epochs);
