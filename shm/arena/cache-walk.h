#pragma once
/*
 * Walking over the caches of a record that were ever used. (Reading a cache that was never used would allocate
 * its page.)
 *
 *     for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
 *             look(walk.cache, walk.epoch, walk.class);
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"
#include "shm/format/handle.h"

typedef struct ShmCacheWalk {
        ShmCache *cache;
        uint32_t index; /* its place in the record */
        uint32_t epoch, class;
        uint32_t next; /* index to look at next */
} ShmCacheWalk;

bool shm_cache_walk_next(ShmCacheWalk *walk, const ShmArena *arena, uint32_t record);

/* The cache's count, cut to SHM_CACHE_MAX, since the word may be garbage. */
static inline uint32_t shm_cache_walk_count(const ShmCacheWalk *walk) {
        /* ORDER: acq, pairs with shm_cache_free_hit(); the ids below it are stored. */
        uint32_t count = shm_load_acq(&walk->cache->count);

        return count < SHM_CACHE_MAX ? count : SHM_CACHE_MAX;
}

/* The slot at index i of the cache. */
static inline SlotId shm_cache_walk_slot(const ShmCacheWalk *walk, uint32_t i) {
        /* ORDER: rlx; the owner is dead, or frozen. */
        return (SlotId){ shm_load_rlx(&walk->cache->slots[i]) & SHM_SLOT_ID_MASK };
}
