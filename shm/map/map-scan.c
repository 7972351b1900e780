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

#define WORDS_A_LEAF                                                                                         \
        64U /* a step of an expiry passes over as many words of the index for each leaf, at most */

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
                        shm_racy_copy(buffer, ret->bytes, ret->head.key_size + ret->head.value_size);
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

/* *ret_vacancy: the word's value if the leaf goes. */
static Fate decide_fate(const ShmTrie *trie, const ShmTrieCursor *c, uint32_t epoch, uint64_t *ret_vacancy) {
        ShmMapView view;
        int r;

        r = shm_map_view(trie->arena, c->value, &view);
        if (r == 0)
                *ret_vacancy = shm_map_vacancy(trie, c, view.bytes, view.head.key_size);
        if (r || !shm_map_view_live(trie->arena, &view)) {
                *ret_vacancy = shm_map_vacancy(trie, c, NULL, 0);
                return FORGET;
        }
        if ((view.head.epoch & 0xff) != (epoch & 0xff))
                return KEEP;
        return epoch >> 8 == 0 || view.head.epoch >> 8 == epoch >> 8 ? DELETE : KEEP;
}

/* One leaf: 1: deleted it; 0: kept it, forgot it, or is to look at it again. */
static int expire_next(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan) {
        ShmTrieScan before = *scan;
        ShmTrieCursor c;
        uint64_t hash, vacancy;
        Fate fate;
        int r;

        r = shm_trie_scan(trie, scan, &c, &hash);
        if (r != 1)
                return r;
        fate = decide_fate(trie, &c, epoch, &vacancy);
        if (fate == KEEP)
                return 0;
        r = shm_trie_exchange(actor, trie, &c, vacancy);
        if (r == SHM_TRIE_E_CHANGED) {
                before.n_words = scan->n_words;
                /* It is not what was decided on any more. */
                *scan = before;
                return 0;
        }
        return r == 0 && fate == DELETE ? 1 : r;
}

ssize_t shm_map_expire(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                       uint32_t n_max) {
        ssize_t n = 0;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        scan->pause = scan->n_words + (uint64_t) n_max * WORDS_A_LEAF;
        for (uint32_t i = 0; i < n_max && !scan->done && scan->n_words < scan->pause; i++) {
                r = expire_next(actor, trie, epoch, scan);
                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}
