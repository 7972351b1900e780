#pragma once
/* From a handle to its object. These calls write nothing, and need no operation. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/slot.h"
#include "shm/format/slab-word.h"

/* The address of the object in this process, valid until a thread frees the handle. 0 or -ESTALE. */
static inline int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object,
                                 size_t *ret_size) {
        SlotId id = shm_handle_slot(handle);
        uint64_t state;
        uint32_t class;

        if (!shm_handle_plausible(arena, handle))
                return -ESTALE;
        /*
         * The class is read before the tag: if the tag then says that the object is live, it was live at the first
         * load too, and so the class was the class of its slab.
         */
        /* ORDER: acq, pairs with shm_slab_claim(); before the tag. */
        state = shm_load_acq(&arena->lines[slot_id_slab(id)].word.high);
        if (slab_word_state((SlabWord){ .high = state }) == SLAB_UNCOMMITTED)
                return -ESTALE;
        /* ORDER: acq, pairs with shm_uncached_alloc(); the caller reads the object after the tag. */
        if (shm_load_acq(shm_slot_tag(arena, id)) != shm_handle_tag(arena->key, handle))
                return -ESTALE;
        class = slab_word_class((SlabWord){ .high = state });
        if (class >= arena->n_classes || slot_id_slot(id) >= arena->classes[class].n_slots)
                return -ESTALE;
        *ret_object = shm_slot_address(arena, id, class);
        if (ret_size)
                *ret_size = arena->classes[class].size;
        return 0;
}

/* Whether the handle names a live object now. */
bool shm_object_live(const ShmArena *arena, uint64_t handle);

/*
 * Copies the bytes [offset, offset + size) of the object, then checks that the object was live until the
 * last byte was read. 0, -ESTALE, -EMSGSIZE (the range is not inside the object).
 */
int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size);
