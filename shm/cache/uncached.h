#pragma once
/* Allocating and freeing on the slab words themselves, past the caches. Inside an operation. */
#include <stdint.h>

#include "shm/arena/note.h"
#include "shm/arena/record.h"

/*
 * The root and hash with which an object is noted: see shm_object_alloc(). With `link` the object is not noted. Instead
 * that word takes its handle, xor the seal, before the object is live. The word is in an object that is noted itself,
 * or that such words lead to.
 */
typedef struct ShmPending {
        uint64_t root;
        uint64_t hash;
        uint64_t *link;
        uint64_t seal;
} ShmPending;

/* Makes the handle known to repair, before its tag is odd. -ENOBUFS. */
static inline int shm_pending_note(ShmActor *actor, const ShmPending *pending, uint64_t handle) {
        if (!pending->link && actor->kept.note != 0 && actor->kept.hash == pending->hash &&
            actor->kept.root == pending->root)
                return shm_actor_renote_kept(actor, handle);
        if (!pending->link)
                return shm_actor_note(actor, handle, pending->root, pending->hash);
        /* ORDER: rel, pairs with shm_trie_contains(); the object that has the word is written. */
        shm_store_rel(pending->link, handle ^ pending->seal);
        return 0;
}

/* Allocates an object of this class, epoch and era. -ENOMEM, -ENOBUFS (no note left). */
int shm_uncached_alloc(ShmActor *actor, uint64_t key, const ShmPending *pending, uint64_t *ret_handle);
/* A word of an object. Threads change it, each from a value that it read before, as long as the object is live. */
typedef struct ShmFinal {
        uint64_t *word;
        uint64_t closed; /* its content from then on: none that any thread expects */
        uint64_t last; /* returned: the one before, with all changes */
        bool done; /* returned: false where somebody else freed the object */
} ShmFinal;

/* Errors of shm_object_free(). If `final` is not NULL, that word is closed before others can have the slot. */
int shm_uncached_free(ShmActor *actor, uint32_t tag, SlotId id, ShmFinal *final);
