#pragma once
/*
 * Requested sizes, sampled: on the slow path each thread stores some in its caches, so that the daemon can suggest size
 * classes. A size is stored as its number of granules, less 1. Since 0 means empty, a size of one granule is stored as
 * two: no class is that small. When a thread is idle, the pages of its caches go, and the samples with them: the daemon
 * has counted them by then.
 */
#include "shm/arena/arena.h"

#define SHM_REQUESTED_MAX 11U

/* Stores a requested size in the cache that serves it, which belongs to the calling thread. */
static inline void shm_requested_note(ShmCache *cache, size_t size) {
        uint32_t next = cache->requested_next < SHM_REQUESTED_MAX ? cache->requested_next : 0;
        size_t granules = (size - 1) / SHM_CLASS_GRANULE;

        shm_hint_store(&cache->requested[next], (uint8_t) (granules == 0 ? 1 : granules));
        cache->requested_next = (uint8_t) (next + 1);
}

/* Sample i of a cache of any thread, in bytes, rounded up to granules; 0: none. */
static inline uint32_t shm_requested_get(const ShmCache *cache, uint32_t i) {
        uint32_t granules = shm_hint_load(&cache->requested[i]);

        return granules == 0 ? 0 : (granules + 1) * SHM_CLASS_GRANULE;
}
