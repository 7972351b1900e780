#pragma once
/*
 * Requested sizes, sampled: each thread notes some in its caches, on its slow path, for
 * the daemon to see what classes would fit. A size is noted in granules, less 1; the smallest one
 * passes for the second, since no class is that small.
 */
#include "shm/arena/arena.h"

#define SHM_REQUESTED_MAX 11U

/* `size` was asked for, and goes through this cache of ours. */
static inline void shm_requested_note(ShmCache *cache, size_t size) {
        uint32_t next = cache->requested_next < SHM_REQUESTED_MAX ? cache->requested_next : 0;
        size_t granules = (size - 1) / SHM_CLASS_GRANULE;

        /* ORDER: rlx; a sample, of no moment. */
        shm_store_rlx(&cache->requested[next], (uint8_t) (granules == 0 ? 1 : granules));
        cache->requested_next = (uint8_t) (next + 1);
}

/* Sample i of somebody's cache, in bytes, up to a granule more than was asked for; 0: none. */
static inline uint32_t shm_requested_get(const ShmCache *cache, uint32_t i) {
        uint32_t granules = shm_load_rlx(&cache->requested[i]); /* ORDER: rlx; a sample, of no moment. */

        return granules == 0 ? 0 : (granules + 1) * SHM_CLASS_GRANULE;
}
