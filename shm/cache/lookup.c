/*
 * Looking objects up
 *
 * Purpose: finds the object of a handle.
 *
 * Invariants
 *   1. A tag is read only if its slab is below n_slabs_ever, and not UNCOMMITTED. So neither a garbage handle nor a
 *      stale one allocates a page, unless the slab is dropped at that very moment.
 *   2. An object is live if the slot's tag, read after all else, is the handle's.
 *
 * Who may do what: any thread, without an actor; nothing is written.
 *
 * Crash: nothing was written.
 */
#include "shm/cache/lookup.h"

#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/slab/tags.h"

bool shm_object_live(const ShmArena *arena, uint64_t handle) {
        if (!shm_handle_plausible(arena, handle) ||
            shm_tags_away(arena, slot_id_slab(shm_handle_slot(handle))))
                return false;
        /* ORDER: acq, pairs with shm_uncached_alloc(); the caller reads the object after the tag. */
        return shm_load_acq(shm_slot_tag(arena, shm_handle_slot(handle))) ==
               shm_handle_tag(arena->key, handle);
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
        shm_racy_copy_out(buffer, (const uint8_t *) object + offset, size);
        /* ORDER: acq, pairs with shm_uncached_free(); the bytes are read before the tag is read again. */
        shm_fence_acq();
        return shm_object_live(arena, handle) ? 0 : -ESTALE;
}
