#pragma once
/* How large a cache is, and whether it pays. For the owner of the record. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/cache/cache-hit.h"

static inline uint32_t shm_cache_index(const ShmActor *actor, const ShmCache *cache) {
        return (uint32_t) (cache - (ShmCache *) actor->caches);
}

/* The first slot is about to go through the cache. */
void shm_cache_begin_use(ShmActor *actor, ShmCache *cache);
/* A refill after a flush, or a flush after a refill: what was given back was wanted. */
void shm_cache_adapt_capacity(ShmCache *cache, uint32_t event);
/*
 * Whether caching has not paid, when a window is full: hardly an operation was served by a slot that
 * came by itself, and slab words were changed for hardly more than one slot each.
 */
bool shm_cache_end_window(ShmActor *actor, ShmCacheWindow *window, ShmCounter counter);
