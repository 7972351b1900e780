#pragma once
/* Sets of maps, by the index of a map's named root. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arch/atomic.h"
#include "shm/format/layout.h"

static_assert(SHM_ROOTS_MAX <= 64 * sizeof(ShmMapSet) / sizeof(uint64_t), "a bit for each");

static inline uint64_t shm_map_set_bit(uint32_t i) {
        return UINT64_C(1) << i % 64;
}

/* These are for a copy. */

static inline bool shm_map_set_has(const ShmMapSet *set, uint32_t i) {
        return set->bits[i / 64] & shm_map_set_bit(i);
}

static inline void shm_map_set_add(ShmMapSet *set, uint32_t i) {
        set->bits[i / 64] |= shm_map_set_bit(i);
}

static inline bool shm_map_set_is_empty(const ShmMapSet *set) {
        return (set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]) == 0;
}

/* One map alone; `i` may be SHM_ROOTS_MAX or more: none. */
static inline ShmMapSet shm_map_set_of(uint32_t i) {
        ShmMapSet set = {};

        if (i < SHM_ROOTS_MAX)
                shm_map_set_add(&set, i);
        return set;
}

/* The maps of `a` that are not in `b`. */
static inline ShmMapSet shm_map_set_less(const ShmMapSet *a, const ShmMapSet *b) {
        ShmMapSet set;

        for (uint32_t k = 0; k < 4; k++)
                set.bits[k] = a->bits[k] & ~b->bits[k];
        return set;
}

/* The next map of the set from `i` on; SHM_ROOTS_MAX: there is none. */
static inline uint32_t shm_map_set_next(const ShmMapSet *set, uint32_t i) {
        while (i < SHM_ROOTS_MAX) {
                uint64_t left = set->bits[i / 64] >> i % 64;

                if (left)
                        return i + (uint32_t) __builtin_ctzll(left) < SHM_ROOTS_MAX
                                       ? i + (uint32_t) __builtin_ctzll(left)
                                       : SHM_ROOTS_MAX;
                i = (i / 64 + 1) * 64;
        }
        return SHM_ROOTS_MAX;
}

/* A copy of a set in the arena. */
static inline ShmMapSet shm_map_set_load(const ShmMapSet *set) {
        ShmMapSet copy;

        for (uint32_t k = 0; k < 4; k++)
                copy.bits[k] = shm_hint_load(&set->bits[k]);
        return copy;
}

static inline void shm_map_set_store(ShmMapSet *set, const ShmMapSet *from) {
        for (uint32_t k = 0; k < 4; k++)
                shm_hint_store(&set->bits[k], from->bits[k]);
}
