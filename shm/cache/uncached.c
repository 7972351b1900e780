/*
 * Allocating and freeing past the caches
 *
 * Purpose: one slot, by the word of its slab.
 *
 * Invariants
 *   1. A slot's tag is odd exactly while it holds a live object; only the thread that claimed the slot makes it odd,
 *      and of all who free it one makes it even, by compare-and-set from the handle's tag.
 *   2. A slot that is claimed and not yet live is named by CLAIM or TAKE; one that is freed and not
 *      yet given back by FREE, with a tag one above the handle's.
 *
 * Who may do what: any thread with its own actor, inside an operation.
 *
 * Crash: allocation, after CLAIM's compare-and-set: bits set, tag even: given back. After the tag is
 *   odd, under TAKE: nobody has the handle: made even, given back. Freeing, after the tag is even,
 *   under FREE: given back.
 */
#include "shm/cache/uncached.h"

#include <errno.h>

#include "shm/slab/search.h"
#include "shm/slab/slab.h"

int shm_uncached_alloc(ShmActor *actor, uint64_t key, const ShmPending *pending, uint64_t *ret_handle) {
        ShmArena *arena = actor->arena;
        uint32_t *tag, value;
        uint64_t handle;
        ShmFound found;
        SlotId id;
        int r;

        r = shm_search(actor, &(ShmWant){ .key = key, .n = 1 }, &found);
        if (r)
                return r;

        id = slot_id(found.slab, (uint32_t) __builtin_ctzll(found.mask));
        tag = shm_slot_tag(arena, id);
        /* ORDER: rlx; the claim's compare-and-set made the slot, and its tag, ours. */
        value = shm_load_rlx(tag) | 1;
        handle = shm_handle_make(arena->key, id, value);
        /* Under CLAIM: given back under TAKE, the slot could be another's object, of the very tag. */
        if (pending)
                r = shm_actor_note(actor, handle, pending->root, pending->hash);
        if (r == 0) {
                shm_actor_intend(actor, shm_intent_take(value, id));
                /* ORDER: rel, pairs with shm_object_get(); the intent and the note stand before it is live. */
                shm_store_rel(tag, value);
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

int shm_uncached_free(ShmActor *actor, uint32_t tag, SlotId id) {
        uint32_t expected = tag;
        int r = -ESTALE;

        shm_actor_intend(actor, shm_intent_free(tag, id));
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is given back. */
        if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {
                r = shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;
                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, 1);
        }
        shm_actor_intend(actor, 0);
        return r;
}
