/*
 * Maps: all entries
 *
 * Purpose: iterates, counts and expires entries while others write.
 *
 * Invariants
 *   1. An entry that is in the map throughout is met exactly once, even if its value is replaced meanwhile: the place
 *      of a scan is that of a key, not of a leaf. If a leaf was freed, the scan looks again from the place before it,
 *      unless the word still holds the leaf: then the leaf is stale.
 *   2. In a bucket, a key whose leaf was revoked is put into a later word (map.c, invariant 3): one scan may
 *      meet the revoked entry and the new one.
 *
 * Who may do what: see shm/map/trie/trie-walk.c. Reading needs no actor.
 *
 * Crash: see shm/map/trie/trie-walk.c. An expiry that was killed has deleted some entries and not others.
 */
#include "shm/map/entry/map.h"

#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/unlink.h"

#define NO_EPOCH 0xffU /* no id is so large */
#define WORDS_A_LEAF                                                                                         \
        64U /* a step of an expiry passes over as many words of the index for each leaf, at most */

static_assert(SHM_EPOCHS_MAX <= NO_EPOCH, "an epoch that there is not");

/*
 * A leaf was found freed. 0: the word still holds it, so it is stale. SHM_TRIE_E_CHANGED: another leaf is in its place,
 * and the scan has gone back.
 */
static int step_back(const ShmTrie *trie, ShmTrieCursor *c, const ShmTrieScan *before, ShmTrieScan *scan) {
        uint64_t seen = c->value, n_words = scan->n_words;
        int r;

        r = shm_trie_reload(trie, c);
        if (r || c->value == seen)
                return r;
        *scan = *before;
        scan->n_words = n_words;
        return SHM_TRIE_E_CHANGED;
}

/* 1; -EUCLEAN; -EMSGSIZE. It counts if the view is live after that. */
static int copy_entry(const ShmTrie *trie, const ShmMapView *view, void *buffer, size_t size) {
        const ShmMapLeaf *head = &view->head;

        if (head->key_size > size)
                return -EMSGSIZE;
        shm_racy_copy_out(buffer, view->bytes, head->key_size);
        if (head->value_size > size - head->key_size)
                return 1;
        return shm_map_copy(trie, view, 0, (uint8_t *) buffer + head->key_size, head->value_size) ?: 1;
}

int shm_map_next(const ShmTrie *trie, ShmTrieScan *scan, void *buffer, size_t size, ShmMapView *ret) {
        ShmTrieCursor c;
        uint64_t hash;
        int r;

        for (;;) {
                ShmTrieScan before = *scan;

                r = shm_trie_scan(trie, scan, &c, &hash);
                if (r != 1)
                        return r;
                if (shm_map_view(trie->arena, c.value, ret) == 0) {
                        ret->is_over = shm_map_is_over(trie, ret);
                        r = ret->is_over ? 0 : copy_entry(trie, ret, buffer, size);
                        if (shm_map_view_live(trie->arena, ret)) {
                                if (ret->is_over)
                                        continue;
                                if (r == -EMSGSIZE)
                                        *scan = before;
                                return r;
                        }
                }
                r = step_back(trie, &c, &before, scan);
                if (r < 0)
                        return r;
        }
}

/* False: the leaf was freed. */
static bool look_at_end(const ShmTrie *trie, uint64_t leaf, bool may_expire, bool *ret_over) {
        ShmMapView view;

        *ret_over = false;
        if (!may_expire)
                return shm_object_live(trie->arena, leaf);
        if (shm_map_view(trie->arena, leaf, &view) != 0)
                return false;
        *ret_over = shm_map_is_over(trie, &view);
        return shm_map_view_live(trie->arena, &view);
}

ssize_t shm_map_count(const ShmTrie *trie) {
        ShmTrieScan scan = {};
        ShmTrieCursor c;
        uint64_t hash;
        ssize_t n = 0;
        bool may_expire = shm_load_rlx(&trie->arena->header->expiry.first) != 0; /* ORDER: rlx; about now. */
        bool is_over;
        int r;

        for (;;) {
                ShmTrieScan before = scan;

                r = shm_trie_scan(trie, &scan, &c, &hash);
                if (r != 1)
                        return r < 0 ? r : n;
                if (look_at_end(trie, c.value, may_expire, &is_over)) {
                        n += !is_over;
                        continue;
                }
                r = step_back(trie, &c, &before, &scan);
                if (r < 0)
                        return r;
        }
}

typedef enum Fate {
        KEEP,
        DELETE,
        END, /* its time is over, or it is a claim */
        LOOK_AGAIN, /* it was given more time just now */
        FORGET, /* stale: nobody's entry */
} Fate;

static bool is_in_epoch(const ShmMapLeaf *head, uint32_t epoch) {
        if (epoch == SHM_MAP_EPOCH_ALL)
                return true;
        return (head->epoch & 0xff) == (epoch & 0xff) && (epoch >> 8 == 0 || head->epoch >> 8 == epoch >> 8);
}

/* *ret_vacancy: the value of the word once the leaf is gone. *ret: a view of the leaf, unless it is stale. */
static Fate decide_fate(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint32_t epoch,
                        uint64_t *ret_vacancy, ShmMapView *ret) {
        bool is_spent;
        int r;

        r = shm_map_view(trie->arena, c->value, ret);
        if (r == 0)
                *ret_vacancy = shm_map_vacancy(trie, c, ret->bytes, ret->head.key_size);
        if (r || !shm_map_view_live(trie->arena, ret)) {
                *ret_vacancy = shm_map_vacancy(trie, c, NULL, 0);
                return FORGET;
        }
        is_spent = ret->expires != 0 && shm_map_is_past(trie, shm_map_kept_until(trie, ret));
        if (!is_spent && !is_in_epoch(&ret->head, epoch))
                return KEEP;
        if (shm_map_is_over(trie, ret))
                return shm_map_set_end(actor, ret, SHM_MAP_ENDED) ? END : LOOK_AGAIN;
        return DELETE;
}

static void tally_fate(ShmActor *actor, const ShmTrie *trie, Fate fate, const ShmMapView *view) {
        if (fate == FORGET)
                shm_tally_add(actor, trie, SHM_MAP_DELETES, 1); /* its size is not known any more */
        else
                shm_tally_gone(actor, trie, fate == END ? SHM_MAP_EXPIRATIONS : SHM_MAP_DELETES, view);
}

/* Counts an entry that stays, and notes its end and its slab: these may be missing if the thread that put it died. */
static void census_keep(const ShmTrie *trie, const ShmMapView *view, ShmMapCensus *census) {
        census->entries++;
        census->bytes += shm_map_view_cost(trie->arena, view);
        shm_expiry_note(trie->arena, view->handle, view->expires);
        if (trie->map != 0)
                shm_set_add_for_map(trie->arena, trie->map, slot_id_slab(shm_handle_slot(view->handle)));
}

static void census_drop(const ShmTrie *trie, Fate fate, const ShmMapView *view, ShmMapCensus *census) {
        census->entries_before--;
        census->changes_before++;
        if (fate != FORGET)
                census->bytes_before -= shm_map_view_cost(trie->arena, view);
}

/* Looks at one leaf. 1: it was deleted. 0: it was kept or forgotten, or the scan is to look at it again. */
static int expire_next(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                       ShmMapCensus *census) {
        ShmTrieScan before = *scan;
        uint64_t hash, vacancy;
        ShmTrieCursor c;
        ShmMapView view;
        Fate fate;
        int r;

        r = shm_trie_scan(trie, scan, &c, &hash);
        if (r != 1)
                return r;
        fate = decide_fate(actor, trie, &c, epoch, &vacancy, &view);
        if (fate == KEEP) {
                if (census)
                        census_keep(trie, &view, census);
                return 0;
        }
        if (fate == END || fate == DELETE)
                shm_map_condemn_tag(actor, &view);
        r = fate == LOOK_AGAIN ? SHM_TRIE_E_CHANGED : shm_trie_exchange(actor, trie, &c, vacancy);
        if (r == SHM_TRIE_E_CHANGED) {
                before.n_words = scan->n_words;
                /* The word, or the end of the leaf, has changed since the decision: look at it again. */
                *scan = before;
                return 0;
        }
        if (r)
                return r;
        tally_fate(actor, trie, fate, &view);
        if (census)
                census_drop(trie, fate, &view, census);
        return fate == DELETE;
}

static ssize_t expire_slice(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                            uint32_t n_max, ShmMapCensus *census) {
        ssize_t n = 0;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        if (trie_is_too_long(trie, scan->n_words)) /* the scan may be one that is in the arena */
                return -EIDRM;
        scan->pause = scan->n_words + (uint64_t) n_max * WORDS_A_LEAF;
        for (uint32_t i = 0; i < n_max && !scan->done && scan->n_words < scan->pause; i++) {
                shm_tally_begin(actor, trie);
                r = expire_next(actor, trie, epoch, scan, census);
                shm_tally_end(actor, trie);
                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}

ssize_t shm_map_expire(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                       uint32_t n_max) {
        /* ORDER: sc, pairs with shm_map_claim(); as in shm_map_delete(). */
        shm_fence_after_rmw();
        return expire_slice(actor, trie, epoch, scan, n_max, NULL);
}

ssize_t shm_map_clean(ShmActor *actor, const ShmTrie *trie, ShmTrieScan *scan, uint32_t n_max,
                      ShmMapCensus *census) {
        return expire_slice(actor, trie, NO_EPOCH, scan, n_max, census);
}
