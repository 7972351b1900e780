#pragma once
/*
 * Walking over slabs in steps: over all that were ever committed, or over the members of one set.
 *
 *      shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
 *      while (shm_slab_walk_next(&walk, arena, &budget, &slab, &word))
 *              look(slab, word);
 *      return shm_slab_walk_done(&walk);
 *
 * The budget is what one step may cost: a slab costs 1, a stretch without any costs 1.
 */
#include "shm/slab/set.h"

#define SHM_SLAB_WALK_ALL UINT32_MAX

typedef struct ShmSlabWalk {
        uint32_t set; /* or SHM_SLAB_WALK_ALL */
        uint32_t position; /* slab to look at next */
        uint32_t end; /* n_slabs_ever when it began; may be lowered, and raised again to that */
} ShmSlabWalk;

void shm_slab_walk_begin(ShmSlabWalk *walk, const ShmArena *arena, uint32_t set);
/* False: that was all, or the budget is used up. */
bool shm_slab_walk_next(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget, uint32_t *ret_slab,
                        SlabWord *ret_word);
/* The same for all that are left of the next group which has any: a bit for each slab. */
bool shm_slab_walk_group(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget, uint32_t *ret_group,
                         uint64_t *ret_mask);

static inline bool shm_slab_walk_done(const ShmSlabWalk *walk) {
        return walk->position >= walk->end;
}
