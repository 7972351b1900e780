/* Deleting one leaf. The compare-and-set names the leaf: a newer one of its key stays. */
#include "shm/map/state/unlink.h"

#include <errno.h>

#include "shm/format/siphash.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"

#define TRIES_MAX 4 /* beside writers of other keys; a pass that gives up meets the leaf again */

uint64_t shm_map_bucket_vacancy(const ShmTrie *trie, const void *key, uint32_t key_size) {
        uint64_t hashes[2] = {};

        if (key)
                shm_siphash128(key, key_size, trie->arena->pool_key, hashes);
        return hashes[1] | SHM_TRIE_GONE;
}

bool shm_map_find_leaf(const ShmTrie *trie, const ShmMapView *view, ShmTrieCursor *ret) {
        int r = shm_trie_seek(trie, view->head.hash, ret);

        while (r == 0 && ret->value != view->handle)
                r = shm_trie_next(trie, ret);
        return r == 0;
}

int shm_map_unlink(ShmActor *actor, const ShmTrie *trie, const ShmMapView *view, ShmTrieCursor *c,
                   ShmMapCount count) {
        int r = SHM_TRIE_E_CHANGED;

        shm_map_condemn_tag(actor, view);
        if (view->head.flags & SHM_LEAF_TAG && count == SHM_MAP_EVICTIONS)
                shm_expiry_invalidated(actor->arena);
        for (uint32_t i = 0; i < TRIES_MAX && r == SHM_TRIE_E_CHANGED; i++) {
                if (i > 0 && !shm_map_find_leaf(trie, view, c))
                        return -ENOENT;
                r = shm_trie_exchange(actor, trie, c,
                                      shm_map_vacancy(trie, c, view->bytes, view->head.key_size));
        }
        if (r == 0)
                shm_tally_gone(actor, trie, count, view);
        return r;
}
