#pragma once
/*
 * Walking over slabs in steps: over all slabs that were ever committed, or over the members of one set.
 *
 *      shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
 *      while (shm_slab_walk_next(&walk, arena, &budget, &slab, &word))
 *              look(slab, word);
 *      return shm_slab_walk_done(&walk);
 *
 * The budget limits the cost of one step: a slab costs 1, and a stretch without slabs costs 1.
 */
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

#define SHM_SLAB_WALK_ALL UINT32_MAX

typedef struct ShmSlabWalk {
        uint32_t set; /* or SHM_SLAB_WALK_ALL */
        uint32_t position; /* slab to look at next */
        uint32_t end; /* n_slabs_ever when it began; the caller may lower it, and raise it up to that again */
        uint64_t mask; /* members of the position's group from there on, as they were read; 0: not read yet */
} ShmSlabWalk;

void shm_slab_walk_begin(ShmSlabWalk *walk, const ShmArena *arena, uint32_t set);
/* Goes on to the next slab, and reads the mask of its group. False as in shm_slab_walk_next(). */
bool shm_slab_walk_seek(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget);
/* The next slab and its word. False: there is none, or the budget is used up; see shm_slab_walk_done(). */
static inline bool shm_slab_walk_next(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget,
                                      uint32_t *ret_slab, SlabWord *ret_word) {
        uint32_t slab;

        if (walk->mask == 0 && !shm_slab_walk_seek(walk, arena, budget))
                return false;
        slab = walk->position / 64 * 64 + (uint32_t) __builtin_ctzll(walk->mask);
        if (slab >= walk->end) { /* the caller lowered the end */
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
/* Walks by groups: returns the slabs of the next group that has any left, as a bit for each. */
bool shm_slab_walk_group(ShmSlabWalk *walk, const ShmArena *arena, uint32_t *budget, uint32_t *ret_group,
                         uint64_t *ret_mask);

static inline bool shm_slab_walk_done(const ShmSlabWalk *walk) {
        return walk->position >= walk->end;
}
