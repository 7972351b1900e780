/*
 * Pages: trimming
 *
 * Purpose: drops the pages of FREE slabs, highest first, until no more are left than the pool retains.
 *
 * Invariants
 *   1. A pass counts the slabs, then drops some. Both the count and the choice are hints: shm_pages_drop() goes by the
 *      slab's word, so a slab that is taken meanwhile is not dropped. A slab that is taken still counts as left. So a
 *      pass may leave fewer FREE slabs than are to be kept, by as many as threads took in its time; they are committed
 *      again when they are needed. A pass of the daemon takes many slices, and the daemon ends it as soon as the pool
 *      has no more FREE slabs than it retains. In a private pool a pass is one step.
 *
 * Who may do what: the maintainer.
 *
 * Crash: see shm/slab/pages.c.
 */
#include "shm/slab/pages.h"

#include "shm/slab/set.h"

void shm_pages_trim_begin(ShmTrim *trim, const ShmArena *arena) {
        *trim = (ShmTrim){};
        shm_slab_walk_begin(&trim->count, arena, SHM_SET_FREE);
        trim->group = (trim->count.end + 63) / 64;
}

/* Goes down to the next group that may have FREE slabs. False: this word of 64 groups has none, and is skipped. */
static bool go_down(ShmTrim *trim, const ShmArena *arena) {
        uint32_t last = trim->group - 1;
        uint64_t groups = shm_set_groups(arena, SHM_SET_FREE, last / 64) & UINT64_MAX >> (63 - last % 64);

        trim->group = last / 64 * 64 + (groups == 0 ? 0 : 63 - (uint32_t) __builtin_clzll(groups));
        return groups != 0;
}

/* Drops the FREE slabs of the group, except those to be kept. Returns how many bits of `free` it had. */
static uint32_t trim_group(ShmActor *control, ShmTrim *trim, uint32_t keep) {
        uint64_t mask = shm_set_group(control->arena, SHM_SET_FREE, trim->group);
        uint32_t n = (uint32_t) __builtin_popcountll(mask);

        trim->n_free -= n < trim->n_free ? n : trim->n_free;
        for (; trim->n_free < keep && mask != 0; trim->n_free++)
                mask &= mask - 1; /* the lowest stay */
        if (mask != 0)
                trim->n_dropped += shm_pages_drop(control, trim->group, mask);
        return n;
}

bool shm_pages_trim_step(ShmActor *control, ShmTrim *trim, uint32_t keep, uint32_t budget) {
        uint64_t mask;
        uint32_t group;

        while (shm_slab_walk_group(&trim->count, control->arena, &budget, &group, &mask))
                trim->n_free += (uint32_t) __builtin_popcountll(mask);
        while (budget > 0 && trim->group > 0 && trim->n_free > keep) {
                uint32_t cost = 1;

                if (go_down(trim, control->arena))
                        cost += SHM_DROP_COST * trim_group(control, trim, keep);
                budget -= cost < budget ? cost : budget;
        }
        return shm_slab_walk_done(&trim->count) && (trim->group == 0 || trim->n_free <= keep);
}

uint32_t shm_pages_trim(ShmActor *control, uint32_t keep, uint32_t n_max) {
        ShmTrim trim;

        shm_pages_trim_begin(&trim, control->arena);
        while (trim.n_dropped < n_max && !shm_pages_trim_step(control, &trim, keep, 1))
                ;
        return trim.n_dropped;
}
