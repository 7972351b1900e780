/*
 * Allocating and freeing past the caches
 *
 * Purpose: takes and frees one slot, by changing the word of its slab.
 *
 * Invariants
 *   1. A slot's tag is odd exactly while the slot has a live object. Only the thread that claimed the slot makes it
 *      odd; of all threads that free the object one makes it even, by compare-and-set from the handle's tag.
 *   2. CLAIM or TAKE names a slot that is claimed and not yet live. FREE names a slot whose tag is even again, one
 *      above the handle's, and whose bit in the bitmap is not yet clear.
 *
 * Who may do what: any thread with its own actor, inside an operation.
 *
 * Crash: in an allocation, after the compare-and-set under CLAIM, the bit is set and the tag even: repair frees the
 *   slot. After the tag is odd, under TAKE, no other thread has the handle: repair makes the tag even and frees the
 *   slot. In a free, after the tag is even, under FREE, repair frees the slot.
 */
#include "shm/cache/uncached.h"

#include <errno.h>

#include "shm/slab/search.h"
#include "shm/slab/slab.h"

int shm_uncached_alloc_before(ShmActor *actor, uint64_t key, uint32_t before, const ShmPending *pending,
                              uint64_t *ret_handle) {
        ShmArena *arena = actor->arena;
        uint32_t *tag, value;
        uint64_t handle;
        ShmFound found;
        SlotId id;
        int r;

        r = shm_search(actor, &(ShmWant){ .key = key, .n = 1, .before = before }, &found);
        if (r)
                return r;

        id = slot_id(found.slab, (uint32_t) __builtin_ctzll(found.mask));
        tag = shm_slot_tag(arena, id);
        /* ORDER: rlx; the slot and its tag are ours since the compare-and-set of the claim. */
        value = shm_load_rlx(tag) | 1;
        handle = shm_handle_make(arena->key, id, value);
        /*
         * Noted while CLAIM stands: if the note fails, the slot is freed. If that were under TAKE, and the thread died
         * there, the slot could by then be an object of another thread with the very tag that repair makes even.
         */
        if (pending)
                r = shm_pending_note(actor, pending, handle);
        if (r == 0) {
                shm_actor_intend(actor, shm_intent_take(value, id));
                /* ORDER: rel, pairs with shm_object_get(); the intent and the note stand before it is live. */
                shm_store_rel(tag, value);
                shm_fence_rel(); /* ORDER: rel, pairs with shm_object_copy(); the caller's bytes are after the tag. */
        } else {
                (void) shm_slab_free_slots(actor, found.slab, found.mask);
        }
        shm_actor_intend(actor, 0);
        if (r)
                return r;
        shm_actor_count(actor, SHM_COUNT_ALLOCS_UNCACHED, 1);
        *ret_handle = handle;
        return 0;
}

int shm_uncached_alloc(ShmActor *actor, uint64_t key, const ShmPending *pending, uint64_t *ret_handle) {
        return shm_uncached_alloc_before(actor, key, 0, pending, ret_handle);
}

int shm_uncached_free(ShmActor *actor, uint32_t tag, SlotId id, ShmFinal *final) {
        uint32_t expected = tag;
        int r = -ESTALE;

        shm_actor_intend(actor, shm_intent_free(tag, id));
        /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the object are before the slot is freed. */
        if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {
                if (final)
                        shm_final_close(final);
                r = shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;
                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, 1);
        }
        shm_actor_intend(actor, 0);
        return r;
}
