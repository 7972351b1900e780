#pragma once
/*
 * Walking over the caches of a record. Most are holes of the arena, and reading a hole of a shared
 * mapping allocates a page: the walk asks the kernel where there is data and skips the rest.
 *
 *     for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
 *             look(walk.cache, walk.epoch, walk.class);
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"

typedef struct ShmCacheWalk {
        const ShmCache *cache;
        uint32_t epoch, class;
        uint32_t next; /* cache to look at next, epoch × n_classes + class */
        uint64_t data_off, data_end; /* the next data of the file, as far as it is known */
} ShmCacheWalk;

/*
 * The next cache that has been written. One whose page comes into being behind the walk is left
 * out, as if it had been filled after we looked: a walk sees the record not before it began.
 */
bool shm_cache_walk_next(ShmCacheWalk *walk, const ShmArena *arena, uint32_t record);

/* The cache's count, as far as it can be one. */
static inline uint32_t shm_cache_walk_count(const ShmCacheWalk *walk) {
        /* ORDER: acq, pairs with shm_object_free(); the ids below it are there. */
        uint32_t count = shm_load_acq(&walk->cache->count);

        return count < SHM_CACHE_MAX ? count : SHM_CACHE_MAX;
}
