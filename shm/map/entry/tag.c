/*
 * Maps: tags
 *
 * Purpose: makes all entries of a tag absent by one compare-and-set, however many there are.
 *
 * Invariants
 *   1. An entry counts while the leaves of all of its tags are live. To invalidate a tag is to free its leaf. A handle
 *      is never live again, so the entries stay absent, whatever becomes of the tag's name.
 *   2. The leaf of a tag is freed before it is unlinked, by everybody (shm_map_condemn_tag()). So when a name has no
 *      leaf, or a new one, no entry has the leaf that it had before: an invalidation that begins then misses none.
 *   3. A put has the handles of its tags from before the value was computed. If a tag was invalidated
 *      meanwhile, the entry is absent from the first.
 *   4. A tag has an end, no earlier than those of its entries, so that it goes when they have gone. A tag that goes
 *      early, by eviction or with its epoch, takes its entries with it: never the other way round.
 *   5. All entries with tags have an end, SHM_MAP_FOREVER if need be: so their slabs are looked at by passes, which
 *      free entries without their tags (expiry.c).
 *
 * Who may do what: writers make and invalidate tags. Reading needs no actor.
 *
 * Crash: the free decides. If the thread dies after it, the tag is linked and stale, as a revoked entry is, and the map
 *   is counted anew.
 */
#include "shm/map/entry/tag.h"

#include <errno.h>

#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/unlink.h"

#define GRACE_MS (UINT64_C(3600) * 1000) /* from when its handle was learned until an entry with it is put */

/* SHM_TRIE_E_CHANGED: try again. */
static int tag_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint32_t epoch,
                    uint64_t *ret) {
        uint64_t end = shm_map_now_ms(trie) + GRACE_MS;
        ShmMapPut put = { .mode = SHM_MAP_EXACT,
                          .value = "",
                          .epoch = epoch,
                          .end_ms = end + GRACE_MS,
                          .flags = SHM_LEAF_TAG };
        ShmTrieCursor c;
        ShmMapView view;
        int r;

        r = shm_map_find(trie, key, &c, &view);
        if (r < 0)
                return r;
        if (r == 0 && view.expires != SHM_MAP_ENDED) {
                *ret = view.handle;
                shm_evict_visit(trie, view.handle);
                return shm_map_prolong_tag(actor, &view, end, GRACE_MS) ? 0 : SHM_TRIE_E_CHANGED;
        }
        if (r == 0) {
                shm_map_condemn_tag(actor, &view);
                return SHM_TRIE_E_CHANGED;
        }
        r = shm_map_put(actor, trie, key, &put, ret);
        return r == -EAGAIN ? SHM_TRIE_E_CHANGED : r;
}

int shm_map_tag(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint32_t epoch, uint64_t *ret) {
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        do
                r = tag_once(actor, trie, key, epoch, ret);
        while (r == SHM_TRIE_E_CHANGED);
        return r;
}

int shm_map_invalidate(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key) {
        ShmTrieCursor c;
        ShmMapView view;
        ShmFinal final;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        shm_tally_begin(actor, trie);
        r = shm_map_find(trie, key, &c, &view);
        r = r > 0 ? -ENOENT : r;
        if (r == 0) {
                final = shm_map_view_final(actor->arena, &view);
                r = shm_object_finish(actor, view.handle, &final);
        }
        if (r == 0 || r == -ESTALE) { /* -ESTALE: another thread did it just now */
                if (shm_map_unlink(actor, trie, &view, &c, SHM_MAP_DELETES) != 0)
                        shm_map_ask_for_census_of(trie); /* a sweep unlinks it */
                shm_expiry_invalidated(trie->arena);
                r = 0;
        }
        shm_tally_end(actor, trie);
        return r;
}
