#pragma once
/* From a handle or a slot id to the slot's tag and address in one arena. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"
#include "shm/format/handle.h"

/*
 * Whether the handle can name an object at all: its version is right, its tag is odd, its slab was used at some
 * time. Only then may the slot's tag be read: else a read could allocate a page.
 */
static inline bool shm_handle_plausible(const ShmArena *arena, uint64_t handle) {
        return ((uint32_t) handle >> 30) == SHM_HANDLE_VERSION && (shm_handle_tag(arena->key, handle) & 1) &&
               slot_id_slab(shm_handle_slot(handle)) < shm_arena_n_slabs_ever(arena);
}

static inline uint32_t *shm_slot_tag(const ShmArena *arena, SlotId id) {
        return (uint32_t *) arena->tags + id.value; /* the tags of all slabs are one array */
}

/* For a look at the slot's object that follows soon. Any id will do: a prefetch allocates no page. */
static inline void shm_slot_prefetch(const ShmArena *arena, SlotId id) {
        __builtin_prefetch(shm_slot_tag(arena, id));
        __builtin_prefetch(&arena->lines[slot_id_slab(id)]);
}

static inline void *shm_slot_address(const ShmArena *arena, SlotId id, uint32_t class) {
        return shm_arena_slab(arena, slot_id_slab(id)) + slot_id_slot(id) * arena->classes[class].size;
}
