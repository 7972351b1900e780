/*
 * Maps: taking entries
 *
 * Purpose: deletes an entry, and returns the value that it had.
 *
 * If the value does not change, it is copied, then its leaf is unlinked by its version. A counter may change until the
 * last moment. So its leaf is unlinked, the leaf's tag is made even, and then the sealed word is exchanged for one that
 * no thread expects.
 *
 * Invariants
 *   1. The word is exchanged after the tag is even, and before the slot is another object's. The exchange returns a
 *      word with all changes that were done. A change that was decided on before, and comes late, finds another word
 *      than it expects. A change that is decided on later finds the tag even, and the key absent.
 *   2. The new word is a keyed hash of the leaf's handle (shm_map_view_final()). A thread that was held up does not
 *      expect it (but for a chance of 2^-64, as for sealed words in general).
 *   3. A reader that sees the new word finds the tag even, and looks again.
 *
 * Who may do what: writers, as in shm/map/trie/trie-walk.c.
 *
 * Crash: before the entry is unlinked it is there as it was. After that, the note and the intent FREE name it: repair
 *   frees it, and nobody gets its value.
 */
#include "shm/map/entry/take.h"

#include <errno.h>
#include <string.h>

#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/map/state/unlink.h"

/* The view is of a cell. */
static int take_cell(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t vacancy,
                     const ShmMapView *view, void *buffer) {
        ShmFinal final = shm_map_view_final(trie->arena, view);
        uint64_t value;
        int r;

        r = shm_trie_take(actor, trie, c, vacancy, &final);
        if (r)
                return r;
        shm_tally_gone(actor, trie, SHM_MAP_DELETES, view);
        /* The epoch was revoked since: the result is as if that had come before this call. */
        if (!final.done)
                return -ENOENT;
        value = final.last ^ shm_leaf_seal(view->handle);
        memcpy(buffer, &value, sizeof(value));
        return 0;
}

static int take_value(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t vacancy,
                      const ShmMapView *view, void *buffer) {
        int r = shm_map_copy(trie, view, 0, buffer, view->head.value_size);

        if (!shm_map_view_live(trie->arena, view))
                return SHM_TRIE_E_CHANGED;
        r = r ?: shm_trie_exchange(actor, trie, c, vacancy);
        if (r == 0)
                shm_tally_gone(actor, trie, SHM_MAP_DELETES, view);
        return r;
}

/* One attempt. SHM_TRIE_E_CHANGED: to be done again. */
static int take_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                     ShmMapView *view) {
        ShmTrieCursor c;
        uint64_t vacancy;
        int r;

        r = shm_map_find(trie, key, &c, view);
        if (r)
                return r < 0 ? r : -ENOENT;
        if (view->is_over)
                return shm_map_settle_end(actor, view) ? -ENOENT : SHM_TRIE_E_CHANGED;
        if (view->head.value_size > size)
                return -EMSGSIZE;
        vacancy = shm_map_vacancy(trie, &c, key->bytes, key->size);
        return view->head.flags & SHM_LEAF_CELL ? take_cell(actor, trie, &c, vacancy, view, buffer)
                                                : take_value(actor, trie, &c, vacancy, view, buffer);
}

ssize_t shm_map_take(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                     ShmMapView *ret_view) {
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        /* ORDER: sc, pairs with shm_map_claim(); as in shm_map_delete(). */
        shm_fence_after_rmw();
        shm_tally_begin(actor, trie);
        do {
                r = take_once(actor, trie, key, buffer, size, ret_view);
                if (r == -ENOBUFS && shm_trie_settle_kept(actor))
                        r = SHM_TRIE_E_CHANGED;
        } while (r == SHM_TRIE_E_CHANGED);
        shm_tally_end(actor, trie);
        return r ?: (ssize_t) ret_view->head.value_size;
}
