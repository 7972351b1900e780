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
        uint32_t n = shm_arena_n_caches(arena);
        uint64_t bits;

        while (walk->next < n) {
                /* ORDER: acq, pairs with shm_record_use_cache(); a cache without its bit was never written. */
                bits = shm_load_acq(&r->used[walk->next / 64]) >> walk->next % 64;
                if (bits == 0) {
                        walk->next = (walk->next / 64 + 1) * 64;
                        continue;
                }
                walk->index = walk->next + (uint32_t) __builtin_ctzll(bits);
                walk->next = walk->index + 1;
                walk->class = shm_arena_cache_class(arena, walk->index);
                if (walk->index >= n || walk->class >= arena->n_classes)
                        continue; /* garbage set the bit */
                walk->epoch = walk->index / shm_cache_group(arena->n_classes) % arena->n_epochs;
                walk->cache = shm_arena_cache_at(arena, record, walk->index);
                return true;
        }
        return false;
}
