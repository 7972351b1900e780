/*
 * Slab sets
 *
 * Purpose: finds a slab among 16 million in a few loads. Level 0 is one word, the root; each of its bits
 * says whether the word below has bits; the last level has a bit for each slab.
 *
 * Invariants
 *   1. A bit may be set though its slab does not belong in the set: a thread that tries to claim the slab fails,
 *      and removes the bit.
 *   2. A slab that belongs in the set by its word has its bits set up to the root, or the intent of a record names
 *      it. The record is a live thread's, or a dead thread's until it is repaired.
 *
 * Who may do what: any thread adds and removes. An add always goes up to the root: a bit that is set does not mean that
 *   the bits above it are, since the thread that set it may have been stopped there. Words are changed by locked
 *   instructions, and only if a bit is missing: if each add wrote the words near the root, all cores would contend
 *   for these.
 *   Remove clears a bit, then reads the slab word (or the child word) that the bit describes, and sets the bit again
 *   if that says so. This order does not lose a concurrent add: the adding thread changes the slab word, then looks
 *   at the bit. If it still finds the bit set, the clear comes later, and so the read after the clear sees the change.
 *
 * Crash: in add, bits above are missing; in remove, a bit is missing that should be set again. Both
 *   are on the path of a slab that the dead thread's intent names: shm_set_repair() sets them.
 */
#include "shm/slab/set.h"

#define ADDS_MAX 64 /* one is enough, but where a hand takes the slab out at that moment */

static uint64_t *word_at(const ShmArena *arena, uint32_t set, uint32_t level, uint32_t index) {
        return arena->sets + set * arena->shape.stride + arena->shape.level_off[level] + index;
}

bool shm_set_wants(const ShmArena *arena, uint32_t set, SlabWord w) {
        SlabState state = slab_word_state(w);

        if (set == SHM_SET_FREE)
                return state == SLAB_FREE;
        if (set == SHM_SET_UNCOMMITTED)
                return state == SLAB_UNCOMMITTED;
        if (set >= arena->set_maps)
                return false;
        if (set < 2 + arena->n_epochs)
                return state >= SLAB_PARTIAL && state <= SLAB_DRAINING && slab_word_epoch(w) == set - 2;

        set -= 2 + arena->n_epochs;
        return state == SLAB_PARTIAL && slab_word_epoch(w) == set / arena->n_classes &&
               slab_word_class(w) == set % arena->n_classes;
}

static void set_bits(uint64_t *word, uint64_t mask) {
        /* ORDER: sc, pairs with shm_set_remove_mask(); a locked instruction changed the word that the bits describe. */
        shm_fence_after_rmw();
        /* ORDER: sc, pairs with shm_set_remove_mask(); the words that the bits describe were changed before. */
        if ((shm_load_sc(word) & mask) != mask)
                shm_or_sc(word, mask); /* ORDER: sc; the same. */
}

/* Sets the bits above the word `index` of `level`, up to the root. */
static void add_above(const ShmArena *arena, uint32_t set, uint32_t level, uint32_t index) {
        for (; level > 0; level--) {
                set_bits(word_at(arena, set, level - 1, index / 64), UINT64_C(1) << index % 64);
                index /= 64;
        }
}

void shm_set_add_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask) {
        uint32_t leaf = arena->shape.n_levels - 1;

        set_bits(word_at(arena, set, leaf, group), mask);
        add_above(arena, set, leaf, group);
}

/* The slabs in `mask` that belong in the set by their words. */
static uint64_t set_wanted_bits(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask) {
        uint64_t result = 0;

        shm_fence_after_rmw(); /* ORDER: sc, pairs with set_bits(); the bits were cleared before. */
        for (; mask != 0; mask &= mask - 1) {
                uint32_t bit = (uint32_t) __builtin_ctzll(mask);
                uint32_t slab = group * 64 + bit;

                /* ORDER: acq, pairs with shm_set_add_mask(); read after the bit was cleared. */
                if (slab < arena->n_slabs &&
                    shm_set_wants(arena, set, shm_pair_load_acq(&arena->lines[slab].word)))
                        result |= UINT64_C(1) << bit;
        }
        return result;
}

/* Bits of the word were cleared, which was `old`: if it is 0 now, clears its bit above, and so on up to the root. */
static void clear_above(const ShmArena *arena, uint32_t set, uint32_t index, uint64_t old, uint64_t mask) {
        uint32_t level = arena->shape.n_levels - 1;

        while ((old & ~mask) == 0 && level > 0) {
                uint32_t child = index;

                mask = UINT64_C(1) << child % 64;
                index /= 64;
                level--;
                /* ORDER: sc, pairs with shm_set_add_mask(); cleared before the child is read again. */
                old = shm_and_sc(word_at(arena, set, level, index), ~mask);
                shm_fence_after_rmw(); /* ORDER: sc, pairs with set_bits(); the same. */
                /* ORDER: acq, pairs with shm_set_add_mask(); after the clear above. */
                if (shm_load_acq(word_at(arena, set, level + 1, child)) != 0) {
                        add_above(arena, set, level + 1, child);
                        return;
                }
        }
}

void shm_set_remove_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask) {
        uint32_t leaf = arena->shape.n_levels - 1;
        /* ORDER: sc, pairs with shm_set_add_mask(); cleared before the slab words are read again. */
        uint64_t old = shm_and_sc(word_at(arena, set, leaf, group), ~mask);
        uint64_t back = set_wanted_bits(arena, set, group, mask);

        if (back != 0)
                shm_set_add_mask(arena, set, group, back);
        else
                clear_above(arena, set, group, old, mask);
}

/*
 * A thread that takes the slab out at the same time may do so after it was added here, and clear the bit before. A
 * client that goes on and on writing into the sets does not keep the maintainer here.
 */
void shm_set_add_for_map(const ShmArena *arena, uint32_t map, uint32_t slab) {
        uint32_t set = shm_set_of_map(arena, map);
        uint64_t *line = &arena->lines[slab].maps, bit = shm_set_line_bit(map);

        for (unsigned i = 0; i < ADDS_MAX; i++) {
                shm_set_add(arena, set, slab);
                if (~shm_hint_load(line) & bit)
                        (void) shm_or_sc(line, bit); /* ORDER: sc; after the slab was added. */
                shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_set_forget(); the bit was set before. */
                if (shm_set_has(arena, set, slab))
                        return;
        }
}

void shm_set_forget(const ShmArena *arena, uint32_t map, uint32_t slab) {
        uint64_t mask = UINT64_C(1) << slab % 64;
        uint32_t set = shm_set_of_map(arena, map);
        /* ORDER: sc, pairs with shm_set_add_for_map(); cleared before the bit of the line. */
        uint64_t old = shm_and_sc(word_at(arena, set, arena->shape.n_levels - 1, slab / 64), ~mask);

        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_set_add_for_map(); the same. */
        clear_above(arena, set, slab / 64, old, mask);
        if (map <= SHM_SET_OWN_BITS)
                /* ORDER: sc, pairs with shm_evict_mark_slab(); cleared before the caller looks at the slab. */
                (void) shm_and_sc(&arena->lines[slab].maps, ~shm_set_line_bit(map));
        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_evict_mark_slab(); the same. */
}

void shm_set_repair(const ShmArena *arena, uint32_t set, uint32_t slab) {
        uint32_t level = arena->shape.n_levels - 1, index = slab / 64;

        if (set_wanted_bits(arena, set, index, UINT64_C(1) << slab % 64) != 0)
                shm_set_add(arena, set, slab);
        for (; level > 0; level--) {
                /* ORDER: acq, pairs with shm_set_add_mask(); a child with bits has its bit above. */
                if (shm_load_acq(word_at(arena, set, level, index)) != 0)
                        add_above(arena, set, level, index);
                index /= 64;
        }
}

/* It only moves forward, so it ends even if other threads change the words all the time. */
bool shm_set_find(const ShmArena *arena, uint32_t set, uint32_t from, uint32_t *ret_slab) {
        uint32_t leaf = arena->shape.n_levels - 1, level = leaf;
        uint64_t position = from;

        for (;;) {
                uint64_t word = 0;

                if (position / 64 < arena->shape.level_words[level])
                        /* ORDER: acq, pairs with shm_set_add_mask(); a hint, the slab word decides. */
                        word = shm_load_acq(word_at(arena, set, level, (uint32_t) (position / 64))) &
                               UINT64_MAX << position % 64;
                if (word == 0) {
                        if (level == 0)
                                return false;
                        position = position / 64 + 1;
                        level--;
                        continue;
                }
                position = position / 64 * 64 + (uint32_t) __builtin_ctzll(word);
                if (level == leaf)
                        break;
                position *= 64;
                level++;
        }
        if (position >= arena->n_slabs)
                return false;
        *ret_slab = (uint32_t) position;
        return true;
}

uint64_t shm_set_group(const ShmArena *arena, uint32_t set, uint32_t group) {
        /* ORDER: acq, pairs with shm_set_add_mask(); hints, the slab words decide. */
        return shm_load_acq(word_at(arena, set, arena->shape.n_levels - 1, group));
}

uint64_t shm_set_groups(const ShmArena *arena, uint32_t set, uint32_t index) {
        uint32_t n_levels = arena->shape.n_levels;

        /* ORDER: acq, pairs with shm_set_add_mask(); bits are set from the leaf up. */
        return n_levels > 1 ? shm_load_acq(word_at(arena, set, n_levels - 2, index)) : UINT64_MAX;
}

bool shm_set_has(const ShmArena *arena, uint32_t set, uint32_t slab) {
        uint32_t index = slab;

        for (uint32_t level = arena->shape.n_levels; level > 0; level--) {
                /* ORDER: acq, pairs with shm_set_add_mask(); bits are set from the leaf up. */
                if (!(shm_load_acq(word_at(arena, set, level - 1, index / 64)) >> index % 64 & 1))
                        return false;
                index /= 64;
        }
        return true;
}
