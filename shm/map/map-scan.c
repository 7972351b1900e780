/*
 * Maps: all entries
 *
 * Purpose: iterate, count, expire, beside others that write.
 *
 * Invariants
 *   1. An entry that is in the map throughout is met exactly once, also when its value is replaced
 *      meanwhile: the place of a scan is that of a key, not of a leaf. A leaf found freed is looked
 *      for again from the place before it, unless its word still holds it: then it is stale.
 *   2. In a bucket, a key whose leaf was revoked is put into a later word (shm/map/map.c, invariant 3): one scan may
 *      meet the revoked entry and the new one.
 *
 * Who may do what: see trie-walk.c. Reading needs no actor.
 *
 * Crash: see trie-walk.c. An expiry that was killed has deleted some and not others.
 */
#include "shm/map/map.h"

#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/map/tally.h"

#define NO_EPOCH 0xffU /* no id is so large */
#define WORDS_A_LEAF                                                                                         \
        64U /* a step of an expiry passes over as many words of the index for each leaf, at most */

static_assert(SHM_EPOCHS_MAX <= NO_EPOCH, "an epoch that there is not");

/* A leaf found freed: 0: it is stale; SHM_TRIE_E_CHANGED: another is in its place, the scan is back. */
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

int shm_map_next(const ShmTrie *trie, ShmTrieScan *scan, void *buffer, ShmMapView *ret) {
        ShmTrieCursor c;
        uint64_t hash;
        int r;

        for (;;) {
                ShmTrieScan before = *scan;

                r = shm_trie_scan(trie, scan, &c, &hash);
                if (r != 1)
                        return r;
                if (shm_map_view(trie->arena, c.value, ret) == 0) {
                        size_t size = ret->head.key_size;

                        if (!(ret->head.flags & SHM_LEAF_CHAINED))
                                size += ret->head.value_size;
                        shm_racy_copy(buffer, ret->bytes, size);
                        if (shm_map_view_live(trie->arena, ret))
                                return 1;
                }
                r = step_back(trie, &c, &before, scan);
                if (r < 0)
                        return r;
        }
}

ssize_t shm_map_count(const ShmTrie *trie) {
        ShmTrieScan scan = {};
        ShmTrieCursor c;
        uint64_t hash;
        ssize_t n = 0;
        int r;

        for (;;) {
                ShmTrieScan before = scan;

                r = shm_trie_scan(trie, &scan, &c, &hash);
                if (r != 1)
                        return r < 0 ? r : n;
                if (shm_object_live(trie->arena, c.value)) {
                        n++;
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
        FORGET, /* stale: nobody's entry */
} Fate;

/* *ret_vacancy: the word's value if the leaf goes. *ret_head: of a leaf that is not stale. */
static Fate decide_fate(const ShmTrie *trie, const ShmTrieCursor *c, uint32_t epoch, uint64_t *ret_vacancy,
                        ShmMapLeaf *ret_head) {
        ShmMapView view;
        int r;

        r = shm_map_view(trie->arena, c->value, &view);
        if (r == 0)
                *ret_vacancy = shm_map_vacancy(trie, c, view.bytes, view.head.key_size);
        if (r || !shm_map_view_live(trie->arena, &view)) {
                *ret_vacancy = shm_map_vacancy(trie, c, NULL, 0);
                return FORGET;
        }
        *ret_head = view.head;
        if ((view.head.epoch & 0xff) != (epoch & 0xff))
                return KEEP;
        return epoch >> 8 == 0 || view.head.epoch >> 8 == epoch >> 8 ? DELETE : KEEP;
}

static void tally_fate(const ShmActor *actor, const ShmTrie *trie, Fate fate, const ShmMapLeaf *head) {
        if (fate == DELETE)
                shm_tally_gone(actor, trie, SHM_MAP_DELETES, head);
        else
                shm_tally_add(actor, trie, SHM_MAP_DELETES, 1); /* its size is not known any more */
}

static void count_kept(const ShmTrie *trie, const ShmMapLeaf *head, ShmMapCensus *census) {
        if (!census)
                return;
        census->entries++;
        census->bytes += shm_leaf_cost(trie->arena, head->key_size, head->value_size);
}

/* One leaf: 1: deleted it; 0: kept it, forgot it, or is to look at it again. */
static int expire_next(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                       ShmMapCensus *census) {
        ShmTrieScan before = *scan;
        ShmTrieCursor c;
        ShmMapLeaf head;
        uint64_t hash, vacancy;
        Fate fate;
        int r;

        r = shm_trie_scan(trie, scan, &c, &hash);
        if (r != 1)
                return r;
        fate = decide_fate(trie, &c, epoch, &vacancy, &head);
        if (fate == KEEP) {
                count_kept(trie, &head, census);
                return 0;
        }
        r = shm_trie_exchange(actor, trie, &c, vacancy);
        if (r == SHM_TRIE_E_CHANGED) {
                before.n_words = scan->n_words;
                /* It is not what was decided on any more. */
                *scan = before;
                return 0;
        }
        if (r == 0)
                tally_fate(actor, trie, fate, &head);
        if (r == 0 && census)
                census->entries_before--;
        return r == 0 && fate == DELETE ? 1 : r;
}

static ssize_t expire_slice(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                            uint32_t n_max, ShmMapCensus *census) {
        ssize_t n = 0;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
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
        return expire_slice(actor, trie, epoch, scan, n_max, NULL);
}

ssize_t shm_map_clean(ShmActor *actor, const ShmTrie *trie, ShmTrieScan *scan, uint32_t n_max,
                      ShmMapCensus *census) {
        return expire_slice(actor, trie, NO_EPOCH, scan, n_max, census);
}
