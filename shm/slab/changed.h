#pragma once
/*
 * Marks of groups of slabs whose words changed
 *
 * Purpose: a process that keeps sums over all slabs (shm/stats/slab-sums.h) counts only those anew whose words may have
 *   changed since it counted them. A bit stands for SHM_CHANGED_SLABS neighbours.
 *
 * Invariants
 *   1. If a word has changed since the counting process cleared the bit of its group, the bit is set, or the intent of
 *      a record names the slab. The record is a live thread's, or a dead thread's until it is repaired.
 *   2. A bit may be set though no word changed: that costs a look at the group.
 *
 * Who may do what: a thread that changed a slab's word sets the bit, if it is missing, so that threads write the
 *   line of the bits once a group for each count, and else only read it. One process at a time clears bits, the daemon:
 *   it clears a bit, then reads the words. This order loses no change: the thread changes the word, then looks at the
 *   bit. If it finds the bit set, the clear comes later, and so the words are read after the change.
 *
 * Crash: after the change of the word the bit may be missing; repair sets it for the slabs that the intent names.
 */
#include "shm/arena/arena.h"

/* The slab's word was changed by a compare-and-set just now, or by a thread that died since. */
static inline void shm_changed_mark(const ShmArena *arena, uint32_t slab) {
        uint64_t bit = UINT64_C(1) << slab / SHM_CHANGED_SLABS % 64;
        uint64_t *word = &arena->changed[slab / SHM_CHANGED_SLABS / 64];

        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_changed_take(); the slab's word was changed before. */
        /* ORDER: sc, pairs with shm_changed_take(); the same. */
        if (!(shm_load_sc(word) & bit))
                (void) shm_or_sc(word, bit); /* ORDER: sc; the same. */
}

/* The bits of 64 groups, from group `index` * 64 on. */
static inline uint64_t shm_changed_groups(const ShmArena *arena, uint32_t index) {
        return shm_hint_load(&arena->changed[index]);
}

/* Clears the bit of a group. The caller counts all slabs of the group after that. */
static inline void shm_changed_take(const ShmArena *arena, uint32_t group) {
        uint64_t bit = UINT64_C(1) << group % 64;

        (void) shm_and_sc(&arena->changed[group / 64], ~bit); /* ORDER: sc; the words are read after it. */
        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_changed_mark(); the same. */
}
