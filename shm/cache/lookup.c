/*
 * Looking objects up
 *
 * Purpose: finds the object of a handle.
 *
 * Invariants
 *   1. A tag is read only if its slab is below n_slabs_ever, and not UNCOMMITTED: neither a garbage handle nor a stale
 *      one allocates a page, but for one whose slab is dropped at that moment.
 *   2. An object is live if, after all else was read, the slot's tag is the handle's.
 *
 * Who may do what: any thread, without an actor; nothing is written.
 *
 * Crash: nothing was written.
 */
#include "shm/cache/lookup.h"

#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/arena/slot.h"
#include "shm/slab/tags.h"

bool shm_object_live(const ShmArena *arena, uint64_t handle) {
        if (!shm_handle_plausible(arena, handle) ||
            shm_tags_away(arena, slot_id_slab(shm_handle_slot(handle))))
                return false;
        /* ORDER: acq, pairs with shm_uncached_alloc(); the caller reads the object after the tag. */
        return shm_load_acq(shm_slot_tag(arena, shm_handle_slot(handle))) ==
               shm_handle_tag(arena->key, handle);
}

int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object, size_t *ret_size) {
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

int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size) {
        void *object;
        size_t room;
        int r;

        r = shm_object_get(arena, handle, &object, &room);
        if (r)
                return r;
        if (offset > room || size > room - offset)
                return -EMSGSIZE;
        shm_racy_copy(buffer, (const uint8_t *) object + offset, size);
        /* ORDER: acq, pairs with shm_uncached_free(); the bytes are read before the tag is read again. */
        shm_fence_acq();
        return shm_object_live(arena, handle) ? 0 : -ESTALE;
}
