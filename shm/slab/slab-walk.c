/*
 * Walking over slabs
 *
 * Purpose: goes over the slabs of an arena in steps, for all code that counts, draws, checks or drains them.
 *
 * Invariants
 *   1. Nothing at or above n_slabs_ever is read: reading a hole would allocate a page.
 *   2. The position only rises, and each unit of the budget stands for a few loads, even if the sets are garbage: a
 *      step ends, and takes no longer than its budget allows.
 *   3. A group is skipped if all its bits in `uncommitted` are set. If one of these is stale, the walk misses
 *      the group until a thread that looks there removes the bit.
 *
 * Who may do what: any thread may walk; a walk writes nothing into the arena.
 *
 * Crash: nothing was written.
 */
#include "shm/slab/slab-walk.h"

void shm_slab_walk_begin(ShmSlabWalk *walk, const ShmArena *arena, uint32_t set) {
        *walk = (ShmSlabWalk){ .set = set, .end = shm_arena_n_slabs_ever(arena) };
}

/* The slabs of a group over which the walk goes. */
static uint64_t walk_members(const ShmSlabWalk *walk, const ShmArena *arena, uint32_t group) {
        if (walk->set != SHM_SLAB_WALK_ALL)
                return shm_set_group(arena, walk->set, group);
        return shm_set_group(arena, SHM_SET_UNCOMMITTED, group) == UINT64_MAX ? 0 : UINT64_MAX;
}

/* The first slab of the next group that may have members. */
static uint32_t walk_skip(const ShmSlabWalk *walk, const ShmArena *arena, uint32_t group) {
        uint64_t groups;

        group++;
        if (walk->set == SHM_SLAB_WALK_ALL || group * 64 >= walk->end)
                return group * 64;
        groups = shm_set_groups(arena, walk->set, group / 64) >> group % 64;
        return groups == 0 ? (group / 64 + 1) * 64 * 64 : (group + (uint32_t) __builtin_ctzll(groups)) * 64;
}

/* Goes on to the next slab of the walk. Returns the members of its group from that slab on; 0 if there is none. */
static uint64_t walk_seek(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget) {
        for (; *budget > 0 && walk->position < walk->end; (*budget)--) {
                uint32_t group = walk->position / 64;
                uint64_t mask = walk_members(walk, arena, group) & UINT64_MAX << walk->position % 64;

                if (walk->end - group * 64 < 64)
                        mask &= (UINT64_C(1) << walk->end % 64) - 1;
                if (mask != 0) {
                        walk->position = group * 64 + (uint32_t) __builtin_ctzll(mask);
                        return mask;
                }
                walk->position = walk_skip(walk, arena, group);
                if (walk->position > walk->end)
                        walk->position = walk->end;
        }
        return 0;
}

bool shm_slab_walk_seek(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget) {
        walk->mask = walk_seek(walk, arena, budget);
        return walk->mask != 0;
}

bool shm_slab_walk_group(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget, uint32_t *ret_group,
                         uint64_t *ret_mask) {
        uint64_t mask = walk_seek(walk, arena, budget);
        uint32_t n = (uint32_t) __builtin_popcountll(mask), next = (walk->position / 64 + 1) * 64;

        if (mask == 0)
                return false;
        *budget -= n < *budget ? n : *budget;
        *ret_group = walk->position / 64;
        *ret_mask = mask;
        walk->position = next < walk->end ? next : walk->end;
        walk->mask = 0;
        return true;
}
