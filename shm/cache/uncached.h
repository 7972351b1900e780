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
/* As shm_uncached_alloc(), in a slab before this one that has other objects. */
int shm_uncached_alloc_before(ShmActor *actor, uint64_t key, uint32_t before, const ShmPending *pending,
                              uint64_t *ret_handle);
/*
 * Words of an object that threads change in place, each from a value that it read before, as long as the object is
 * live. They are closed once its tag is even, and before its slot can be another object's: a change that comes late
 * finds a content that no thread expects.
 */
typedef struct ShmFinal {
        uint64_t *word;
        uint64_t closed; /* its content from then on */
        uint64_t *taken; /* another such word; NULL: there is none */
        uint64_t taken_closed; /* its content from then on */
        uint64_t last; /* returned: the one before, with all changes */
        bool done; /* returned: false where somebody else freed the object */
} ShmFinal;

/* For the thread that made the tag even, before it gives the slot away. */
static inline void shm_final_close(ShmFinal *final) {
        /* ORDER: rel, pairs with shm_map_view(); a thread that reads it finds the tag even. */
        shm_store_rel(final->word, final->closed);
        if (__builtin_expect(final->taken != NULL, 0))
                /* ORDER: acqrel; a thread that reads it finds the tag even. */
                final->last = shm_xchg_acqrel(final->taken, final->taken_closed);
        final->done = true;
}

/* Errors of shm_object_free(). `final` may be NULL. */
int shm_uncached_free(ShmActor *actor, uint32_t tag, SlotId id, ShmFinal *final);
