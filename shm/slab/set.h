#pragma once
/*
 * Slab sets: hierarchical 64-ary bitmaps over slab indexes, for finding slabs.
 *
 * A bit is a hint: the slab word decides. It may be set wrongly, but is never clear wrongly unless an intent names
 * the slab: see shm/slab/set.c. A group is the 64 slabs of one leaf word.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"

#define SHM_SET_FREE 0
#define SHM_SET_UNCOMMITTED 1

/* The slabs of an epoch that are in use, of all its eras. Bits of slabs that have become FREE may still be set. */
static inline uint32_t shm_set_of_epoch(const ShmArena *arena, uint32_t epoch) {
        (void) arena;
        return 2 + epoch;
}

/* The PARTIAL slabs of an epoch and class. */
static inline uint32_t shm_set_partial(const ShmArena *arena, uint32_t epoch, uint32_t class) {
        return 2 + arena->n_epochs + epoch * arena->n_classes + class;
}

/* Slabs that have, or had, entries of a map. The first map is 1; a number from a stray write gives a set, too. */
static inline uint32_t shm_set_of_map(const ShmArena *arena, uint32_t map) {
        return arena->set_maps + (map - 1) % SHM_SET_MAPS;
}

/* The first maps have a bit each in `maps` of a slab's line; up to seven of the others have one together. */
#define SHM_SET_OWN_BITS 32U

/* The map's bit there: whether the slab has, or had, entries of maps with this bit. */
static inline uint64_t shm_set_line_bit(uint32_t map) {
        uint32_t i = map - 1;

        return UINT64_C(1) << (i < SHM_SET_OWN_BITS ? i : SHM_SET_OWN_BITS + i % SHM_SET_OWN_BITS);
}

/* Whether a slab whose word is `w` belongs in the set. */
bool shm_set_wants(const ShmArena *arena, uint32_t set, SlabWord w);

/* Adds slabs of a group. The intent of the caller names them until this returns. */
void shm_set_add_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask);
/* Removes slabs of a group, with the same rule; bits of slabs that belong in the set by their words are set again. */
void shm_set_remove_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask);

/*
 * The set of a map. Adds the slab, then the map's bit to `maps` of its line. shm_set_forget() takes the slab out, then
 * clears the bit unless other maps have it, too; after that the caller looks at the slab, and adds it again if it
 * belongs there.
 */
void shm_set_add_for_map(const ShmArena *arena, uint32_t map, uint32_t slab);
void shm_set_forget(const ShmArena *arena, uint32_t map, uint32_t slab);

/* After a death inside an add or a remove of this slab: sets the bits that are missing, and clears none. */
void shm_set_repair(const ShmArena *arena, uint32_t set, uint32_t slab);

/* The first slab of the set at or after `from`. */
bool shm_set_find(const ShmArena *arena, uint32_t set, uint32_t from, uint32_t *ret_slab);

/* The leaf word of a group. */
uint64_t shm_set_group(const ShmArena *arena, uint32_t set, uint32_t group);
/* A bit for each of the 64 groups from group `index` * 64 on: if it is clear, no slab of the group is in the set. */
uint64_t shm_set_groups(const ShmArena *arena, uint32_t set, uint32_t index);

/* Whether the bit of the slab is set at every level. */
bool shm_set_has(const ShmArena *arena, uint32_t set, uint32_t slab);

/* Whether the slab is in the set of the map; `maps`: of the slab's line. A bit that maps share does not say so. */
static inline bool shm_set_has_for_map(const ShmArena *arena, uint32_t map, uint32_t slab, uint64_t maps) {
        return maps & shm_set_line_bit(map) &&
               (map <= SHM_SET_OWN_BITS || shm_set_has(arena, shm_set_of_map(arena, map), slab));
}

static inline void shm_set_add(const ShmArena *arena, uint32_t set, uint32_t slab) {
        shm_set_add_mask(arena, set, slab / 64, UINT64_C(1) << slab % 64);
}

static inline void shm_set_remove(const ShmArena *arena, uint32_t set, uint32_t slab) {
        shm_set_remove_mask(arena, set, slab / 64, UINT64_C(1) << slab % 64);
}
