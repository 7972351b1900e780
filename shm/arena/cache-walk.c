/*
 * Walking over caches
 *
 * Purpose: finds the caches of a record that were ever used.
 *
 * Invariants
 *   1. A cache whose `used` bit is clear was never written, and is not read: a read would allocate its page.
 *   2. The position only rises, so a walk ends even if the bits are garbage.
 *
 * Who may do what: any thread may walk; its caller knows whether the owner may write at the same time.
 *
 * Crash: nothing was written.
 */
#include "shm/arena/cache-walk.h"

bool shm_cache_walk_next(ShmCacheWalk *walk, const ShmArena *arena, uint32_t record) {
        const ShmRecord *r = shm_arena_record(arena, record);
        uint32_t n = arena->n_epochs * arena->n_classes;

        for (uint64_t bits; walk->next < n; walk->next = (walk->next / 64 + 1) * 64) {
                /* ORDER: acq, pairs with shm_record_use_cache(); a cache without its bit was never written. */
                bits = shm_load_acq(&r->used[walk->next / 64]) >> walk->next % 64;
                if (bits == 0)
                        continue;
                walk->index = walk->next + (uint32_t) __builtin_ctzll(bits);
                if (walk->index >= n)
                        return false;
                walk->next = walk->index + 1;
                walk->epoch = walk->index / arena->n_classes;
                walk->class = walk->index % arena->n_classes;
                walk->cache = shm_arena_cache(arena, record, 0, walk->index);
                return true;
        }
        return false;
}
