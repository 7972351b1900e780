/*
 * Maps: claims
 *
 * Purpose: one process at a time computes a key's value.
 *
 * Invariants
 *   1. A claim is a leaf under the key itself. So one compare-and-set decides between claims, puts and deletes, and at
 *      most one claim of a key is linked.
 *   2. A claim never changes. It stands until its time is over, or until the entry of the client table that it names
 *      has another identity or is no longer in use. So the claim of a process that ended is free though nobody changed
 *      anything; the next caller puts its own claim in its place.
 *   3. A claim replaces the leaf on which it was decided, by that leaf's version. If that leaf is an expired entry, the
 *      thread settles its end first, so that no touch that was held up brings it back unseen. The stale value can be
 *      had until the claim is linked, even if the thread dies in between.
 *   4. A claim that is given up is replaced by one whose time is over, which has the stale value as long as that can be
 *      had; or it is deleted, if there is no memory for that. Each has another version, so what comes late is refused.
 *   5. A claim is extended by another claim that takes its place, by its version: so only while it is there.
 *   6. A change of the data from which the value is computed, and a delete of the key after it, either find the claim,
 *      or the computation finds the change. Where the data is in the same pool, fences see to that: a delete's before
 *      its look, and the one behind the claim's link, as the claim's end is noted.
 *   7. The change that removes or replaces a claim wakes the threads that wait for it: see shm/map/state/wait.c.
 *
 * Who may do what: writers claim. Reading needs no actor.
 *
 * Crash: if a thread is killed in a claim, the claim is linked or not, as with a put. A linked one belongs to a dead
 *   process, and so is free.
 */
#include "shm/map/entry/claim.h"

#include <string.h>

#include "shm/arena/client.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/trie/trie-walk.h"

/* The end of a value that can be had as a stale one; 0: there is none. False: the leaf is no more. */
static bool load_stale_end(const ShmTrie *trie, const ShmMapView *view, uint64_t *ret) {
        uint32_t stale_ms = shm_map_options(trie).stale_ms;
        ShmClaim claim = { .value_end = view->expires };

        if (view->head.flags & SHM_LEAF_CLAIM) {
                if (!shm_map_load_claim(trie, view, &claim))
                        return false;
        } else if (view->expires == SHM_MAP_ENDED || (view->head.flags & SHM_LEAF_CELL)) {
                claim.value_end = 0;
        }
        if (claim.value_end != 0 && (!shm_map_has_all_tags(trie->arena, view) ||
                                     shm_map_is_past(trie, shm_claim_stale_until(&claim, stale_ms))))
                claim.value_end = 0;
        *ret = claim.value_end;
        return true;
}

/* Whether another claim is in the way. SHM_TRIE_E_CHANGED: the leaf is no more. */
static int admit_claim(const ShmTrie *trie, const ShmMapView *view, uint64_t gone, ShmClaimed *ret) {
        if (!(view->head.flags & SHM_LEAF_CLAIM) || view->handle == gone)
                return 0;
        ret->version = view->handle;
        if (!shm_map_load_claim(trie, view, &ret->claim))
                return SHM_TRIE_E_CHANGED;
        return shm_map_claim_stands(trie, &ret->claim) ? -EBUSY : 0;
}

/* For a claim that has a copy of the stale value, and of its tags. SHM_TRIE_E_CHANGED: the leaf is no more. */
static int copy_stale(const ShmTrie *trie, const ShmMapView *view, const ShmMapClaim *claim, ShmMapPut *put,
                      ShmClaimed *ret) {
        if (view->head.value_size > claim->buffer_size) {
                ret->value_size = view->head.value_size;
                return -EMSGSIZE;
        }
        put->value_size = view->head.value_size;
        if (shm_map_copy(trie, view, 0, claim->buffer, put->value_size) != 0)
                return shm_map_view_live(trie->arena, view) ? -EUCLEAN : SHM_TRIE_E_CHANGED;
        put->value = claim->buffer;
        put->tags = view->tags;
        put->n_tags = shm_leaf_n_tags(view->head.flags);
        return 0;
}

/*
 * Finds the leaf that the claim is to replace, and copies its value if that is stale and wanted. SHM_TRIE_E_CHANGED:
 * try again.
 */
static int prepare_claim(ShmActor *actor, const ShmTrie *trie, const ShmMapView *view,
                         const ShmMapClaim *claim, bool keeps, ShmMapPut *put, ShmClaim *own,
                         ShmClaimed *ret) {
        int r;

        if (!view->is_over)
                return -EEXIST;
        r = admit_claim(trie, view, claim->gone, ret);
        if (r)
                return r;
        if (!load_stale_end(trie, view, &own->value_end))
                return SHM_TRIE_E_CHANGED;
        if (!keeps)
                own->value_end = 0;
        if (own->value_end != 0) {
                r = copy_stale(trie, view, claim, put, ret);
                if (r)
                        return r;
        }
        put->expected = view->handle;
        return shm_map_view_live(trie->arena, view) && shm_map_settle_end(actor, view) ? 0
                                                                                       : SHM_TRIE_E_CHANGED;
}

static int claim_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                      bool keeps, ShmClaimed *ret) {
        uint32_t client = shm_record_owner(actor->arena, actor->id).client;
        ShmClaim own = {
                .process = shm_client_identity(actor->arena, client),
                .ends = shm_map_now_ms(trie) + claim->limit_ms,
                .client = client,
                .thread = claim->thread,
        };
        ShmMapPut put = {
                .mode = SHM_MAP_EXACT,
                .value = "",
                .epoch = claim->epoch,
                .flags = SHM_LEAF_CLAIM,
                .claim = &own,
        };
        ShmTrieCursor c;
        ShmMapView view;
        int r;

        r = shm_map_find(trie, key, &c, &view);
        if (r < 0)
                return r;
        if (claim->extends && (r != 0 || view.handle != claim->gone || !shm_map_view_is_claim(&view)))
                return -ENOENT;
        if (r == 0) {
                r = prepare_claim(actor, trie, &view, claim, keeps, &put, &own, ret);
                if (r)
                        return r;
        }
        return shm_map_put(actor, trie, key, &put, &ret->version);
}

int shm_map_claim(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                  ShmClaimed *ret) {
        bool keeps = true;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        if (key->size > shm_map_claim_key_max(trie->arena))
                return shm_map_refuse_large(actor, key->size, sizeof(ShmClaim));
        do {
                r = claim_once(actor, trie, key, claim, keeps, ret);
                /* There may be room without the stale value; or that is damaged, and can be left out. */
                if (keeps && (r == -ENOMEM || r == -E2BIG || r == -EUCLEAN)) {
                        keeps = false;
                        r = -EAGAIN;
                }
        } while (r == -EAGAIN || r == SHM_TRIE_E_CHANGED);
        return r;
}

/*
 * Puts a claim that does not stand, with the stale value, in the place of the claim that is given up. -ENOENT: there is
 * no such claim, or it has no stale value. SHM_TRIE_E_CHANGED: try again.
 */
static int give_up_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                        ShmClaimed *ret) {
        ShmClaim nobody = {};
        ShmMapPut put = { .expected = claim->gone, .flags = SHM_LEAF_CLAIM, .claim = &nobody };
        ShmTrieCursor c;
        ShmMapView view;
        int r;

        r = shm_map_find(trie, key, &c, &view);
        if (r || view.handle != claim->gone || !shm_map_view_is_claim(&view))
                return -ENOENT;
        if (!load_stale_end(trie, &view, &nobody.value_end))
                return SHM_TRIE_E_CHANGED;
        if (nobody.value_end == 0)
                return -ENOENT;
        r = copy_stale(trie, &view, claim, &put, ret);
        if (r)
                return r;
        put.mode = SHM_MAP_EXACT;
        put.epoch = view.head.epoch;
        return shm_map_put(actor, trie, key, &put, NULL);
}

int shm_map_give_up(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                    ShmClaimed *ret) {
        int r = -ENOENT;

        if (shm_map_options(trie).stale_ms != 0 && !trie->arena->read_only)
                do
                        r = give_up_once(actor, trie, key, claim, ret);
                while (r == SHM_TRIE_E_CHANGED);
        return r == 0 || r == -EMSGSIZE ? r : shm_map_delete(actor, trie, key, claim->gone);
}

static int find_claim(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, ShmMapView *view,
                      ShmClaim *ret) {
        ShmTrieCursor c;
        int r;

        r = shm_map_find(trie, key, &c, view);
        if (r)
                return r < 0 ? r : 0;
        return (version == 0 || view->handle == version) && (view->head.flags & SHM_LEAF_CLAIM) &&
               shm_map_load_claim(trie, view, ret) && shm_map_claim_stands(trie, ret);
}

int shm_map_find_claim(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, ShmClaim *ret) {
        ShmMapView view;

        return find_claim(trie, key, version, &view, ret);
}

int shm_map_fulfil(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, uint32_t limit_ms,
                   uint64_t ttl_ms, ShmMapPut *ret) {
        ShmMapView view;
        ShmClaim claim;
        uint64_t end;
        int r;

        r = find_claim(trie, key, version, &view, &claim);
        if (r <= 0)
                return r ?: -EAGAIN;
        end = shm_map_end_from(trie, ttl_ms, claim.ends - limit_ms);
        *ret = (ShmMapPut){
                .mode = SHM_MAP_REPLACE,
                .expected = version,
                .epoch = view.head.epoch,
                .ttl_ms = SHM_MAP_TTL_NONE,
                .end_ms = end,
        };
        return end != 0 && shm_map_is_past(trie, end) ? -EAGAIN : 0;
}

/* 0: there is a value, or a stale one. -ENOENT, -EIDRM. */
static int find_stale(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *view) {
        uint64_t end = 1;
        ShmTrieCursor c;
        int r;

        do {
                r = shm_map_find(trie, key, &c, view);
                if (r)
                        return r < 0 ? r : -ENOENT;
        } while (view->is_over && !load_stale_end(trie, view, &end));
        return view->is_over && end == 0 ? -ENOENT : 0;
}

int shm_map_look_stale(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *ret_view) {
        int r = find_stale(trie, key, ret_view);

        if (r == 0)
                shm_evict_visit_entry(trie, ret_view);
        return r;
}

ssize_t shm_map_get_stale(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                          ShmMapView *view) {
        int r;

        for (;;) {
                r = find_stale(trie, key, view);
                if (r)
                        return r;
                if (view->head.value_size > size)
                        return -EMSGSIZE;
                r = shm_map_copy(trie, view, 0, buffer, view->head.value_size);
                if (shm_map_view_live(trie->arena, view)) {
                        shm_evict_visit_entry(trie, view);
                        return r ?: (ssize_t) view->head.value_size;
                }
        }
}
