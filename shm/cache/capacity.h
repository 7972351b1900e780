#pragma once
/* How large a cache is, and whether it pays. For the owner of the record. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/cache/cache-hit.h"

static inline uint32_t shm_cache_index(const ShmActor *actor, const ShmCache *cache) {
        return (uint32_t) (cache - (ShmCache *) actor->caches);
}

/* Gives a cache its first capacity. Call this before the cache is first used. */
void shm_cache_begin_use(ShmActor *actor, ShmCache *cache);
/*
 * Doubles the capacity if the cache was too small: on a refill after a flush, on a flush after a refill, and if refills
 * alone, or flushes alone, follow each other closely.
 */
void shm_cache_adapt_capacity(const ShmActor *actor, ShmCache *cache, uint32_t event);
/*
 * Ends the window if it is full. True: caching has not paid, so the next operations go past the cache. Two things must
 * be true for that: nearly all hits used slots that a refill or a flush had moved just for them, and a change of a slab
 * word moved fewer than two slots on average.
 */
bool shm_cache_end_window(ShmActor *actor, ShmCacheWindow *window, ShmCounter counter);
