#pragma once
/* How large a cache is, and whether it pays. For the owner of the record. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/cache/cache-hit.h"

static inline uint32_t shm_cache_index(const ShmActor *actor, const ShmCache *cache) {
        return (uint32_t) (cache - (ShmCache *) actor->caches);
}

/* To be called before a cache is first used: gives it its first capacity. */
void shm_cache_begin_use(ShmActor *actor, ShmCache *cache);
/*
 * Doubles the capacity on a refill after a flush, or a flush after a refill, and if refills alone, or flushes, follow
 * each other closely: the cache was too small.
 */
void shm_cache_adapt_capacity(const ShmActor *actor, ShmCache *cache, uint32_t event);
/*
 * Ends the window if it is full. True: caching has not paid, so the next operations go past the cache. That is so if
 * hardly any operation hit without slots that a refill or a flush had moved, and if each slab word was changed for
 * fewer than two slots on average.
 */
bool shm_cache_end_window(ShmActor *actor, ShmCacheWindow *window, ShmCounter counter);
