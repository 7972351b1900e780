#pragma once
/*
 * Slab sets: hierarchical 64-ary bitmaps over slab indexes, for finding slabs.
 *
 * A bit is a hint; the slab word counts. It may be stale-set, never stale-clear: see shm/slab/set.c.
 * A group is the 64 slabs of one leaf word.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"

#define SHM_SET_FREE 0
#define SHM_SET_UNCOMMITTED 1

/* Slabs in use of an epoch, of whatever era; also FREE ones that were its last. */
static inline uint32_t shm_set_of_epoch(const ShmArena *arena, uint32_t epoch) {
        (void) arena;
        return 2 + epoch;
}

/* PARTIAL slabs of an epoch and class. */
static inline uint32_t shm_set_partial(const ShmArena *arena, uint32_t epoch, uint32_t class) {
        return 2 + arena->n_epochs + epoch * arena->n_classes + class;
}

/* Whether a slab whose word is `w` has to be in the set. */
bool shm_set_wants(const ShmArena *arena, uint32_t set, SlabWord w);

/* The intent of the caller names the slabs until this returns. */
void shm_set_add_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask);
/* The same; bits whose slab has to be in the set, by its word, are set again. */
void shm_set_remove_mask(const ShmArena *arena, uint32_t set, uint32_t group, uint64_t mask);

/* Recomputes, after a death, all that an operation on this slab may have left: only sets bits. */
void shm_set_repair(const ShmArena *arena, uint32_t set, uint32_t slab);

/* The first slab of the set at or after `from`. */
bool shm_set_find(const ShmArena *arena, uint32_t set, uint32_t from, uint32_t *ret_slab);

/* One leaf word. */
uint64_t shm_set_group(const ShmArena *arena, uint32_t set, uint32_t group);
/* A bit for each of 64 groups, from group `index` * 64: of a clear one, no slab is in the set. */
uint64_t shm_set_groups(const ShmArena *arena, uint32_t set, uint32_t index);

/* Whether the bit of the slab is set at every level. */
bool shm_set_has(const ShmArena *arena, uint32_t set, uint32_t slab);

static inline void shm_set_add(const ShmArena *arena, uint32_t set, uint32_t slab) {
        shm_set_add_mask(arena, set, slab / 64, UINT64_C(1) << slab % 64);
}

static inline void shm_set_remove(const ShmArena *arena, uint32_t set, uint32_t slab) {
        shm_set_remove_mask(arena, set, slab / 64, UINT64_C(1) << slab % 64);
}
