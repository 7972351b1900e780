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
#include "shm/slab/slab.h"

#define SHM_SLAB_WALK_ALL UINT32_MAX

typedef struct ShmSlabWalk {
        uint32_t set; /* or SHM_SLAB_WALK_ALL */
        uint32_t position; /* slab to look at next */
        uint32_t end; /* n_slabs_ever when it began; may be lowered, and raised again to that */
        uint64_t
                mask; /* members of the position's group from there on, as the walk met them; 0: not read yet */
} ShmSlabWalk;

void shm_slab_walk_begin(ShmSlabWalk *walk, const ShmArena *arena, uint32_t set);
/* Goes on to the next slab there is, and reads the mask of its group. False as below. */
bool shm_slab_walk_seek(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget);
/* False: that was all, or the budget is used up. */
static inline bool shm_slab_walk_next(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget,
                                      uint32_t *ret_slab, SlabWord *ret_word) {
        uint32_t slab;

        if (walk->mask == 0 && !shm_slab_walk_seek(walk, arena, budget))
                return false;
        slab = walk->position / 64 * 64 + (uint32_t) __builtin_ctzll(walk->mask);
        if (slab >= walk->end) { /* it was lowered */
                if (!shm_slab_walk_seek(walk, arena, budget))
                        return false;
                slab = walk->position;
        }
        if (*budget == 0)
                return false;
        --*budget;
        walk->mask &= walk->mask - 1;
        walk->position = slab + 1;
        *ret_slab = slab;
        *ret_word = shm_slab_word(arena, slab);
        return true;
}
/* The same for all that are left of the next group which has any: a bit for each slab. */
bool shm_slab_walk_group(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget, uint32_t *ret_group,
                         uint64_t *ret_mask);

static inline bool shm_slab_walk_done(const ShmSlabWalk *walk) {
        return walk->position >= walk->end;
}
