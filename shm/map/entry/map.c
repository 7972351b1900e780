/*
 * Maps: entries by key
 *
 * Purpose: finds, gets and deletes entries of a trie whose leaves are entries. Puts are in shm/map/entry/put.c.
 *
 * Invariants
 *   1. At most one live leaf of a key is linked: at any time one word on its path is the key's. In a bucket that word
 *      is the key's for good: when the key is deleted, a second hash of it stays there.
 *   2. A call returns only bytes that it read while the leaf's tag said that it was live: an entry that was in the map
 *      at a moment inside the call.
 *   3. A leaf that is linked and stale (its epoch was revoked, or somebody freed it) is no entry. It stays stale: above
 *      the buckets, any key may take a word that holds one. In a bucket, the word may be that of any key. Readers and
 *      deletes pass over it; a put first makes it a SHM_TRIE_GONE without a name, which no key uses again. So when a
 *      put goes on to a later word it knows that no earlier word will ever be its key's, and a change that expects the
 *      stale leaf in such a word fails.
 *   4. The compare-and-set of a change names the version on which the change was decided: nothing comes between.
 *
 * Who may do what: see shm/map/trie/trie-walk.c. Reading needs no actor.
 *
 * Crash: see shm/map/trie/trie-walk.c.
 */
#include "shm/map/entry/map.h"

#include <errno.h>
#include <string.h>

#include "shm/arch/racy.h"
#include "shm/arena/root.h"
#include "shm/cache/lookup.h"
#include "shm/map/entry/shortcut.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/map/state/unlink.h"

#define PREFETCH_SIZE 384
#define NEAR_BYTES (UINT64_C(2) << 20) /* entries of so many bytes are in the caches of one processor */

/*
 * The address of an object is known only once its slab's word was read. Here the size of the object is guessed to be
 * that of the leaf that was read before. So slab word and object are fetched at the same time, which saves one cache
 * miss of two.
 */
static inline void prefetch_leaf(const ShmTrie *trie, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);
        uint32_t size = shm_hint_load(&trie->leaf_room);
        const uint8_t *object = shm_arena_slab(trie->arena, slot_id_slab(id)) + slot_id_slot(id) * size;

        for (uint32_t off = 0; off < size && off < PREFETCH_SIZE; off += 64)
                __builtin_prefetch(object + off);
}

/*
 * All threads of the process read the guess in each get. Where leaves of several sizes take turns no guess is right,
 * and a store for each would send its line from processor to processor: one leaf in 1024 counts. (A map of fewer is in
 * the processor's cache, and needs no guess.)
 */
static inline void remember_room(const ShmTrie *trie, const ShmMapView *view) {
        uint32_t *guess = (uint32_t *) &trie->leaf_room;
        uint32_t seen = shm_hint_load(guess);

        if (seen != view->room && (seen == 0 || view->handle * UINT64_C(0x9e3779b97f4a7c15) >> 54 == 0))
                shm_hint_store(guess, view->room);
}

void shm_map_prefetch(const ShmTrie *trie, const ShmMapKey *keys, uint32_t n) {
        uint64_t hashes[SHM_MAP_PREFETCH_MAX];
        uint32_t n_others = 0;
        ShmTrieCursor c;

        if (n < 2) /* there is nothing to be done at the same time */
                return;
        if (trie->map != 0 && shm_map_bytes(trie) < NEAR_BYTES) /* nothing is far; 30 ns a key */
                return;
        for (uint32_t i = 0; i < n; i++)
                shm_shortcut_prefetch(trie, keys[i].hash);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t leaf = shm_shortcut_find(trie, keys[i].hash);

                if (leaf != 0)
                        prefetch_leaf(trie, leaf);
                else
                        hashes[n_others++] = keys[i].hash;
        }
        shm_trie_prefetch(trie, hashes, n_others);
        for (uint32_t i = 0; i < n_others; i++) {
                if (shm_trie_seek(trie, hashes[i], &c) != 0 || !shm_trie_is_leaf(c.value))
                        continue;
                shm_slot_prefetch(trie->arena, shm_handle_slot(c.value));
                prefetch_leaf(trie, c.value);
        }
}

typedef enum Match {
        OTHER, /* not the key's: a live leaf of another key, or in a bucket a word that cannot be used */
        MINE,
        VACANT, /* the word is 0, or above the buckets has a stale leaf, or in a bucket was the key's before */
        AGAIN, /* the word was changed meanwhile, the cursor moved */
} Match;

/* A stale leaf is linked at the cursor. `actor`: of a put; NULL for other calls. Returns a Match, or an error. */
static int match_stale(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c) {
        int r;

        if (!shm_trie_in_bucket(trie, c))
                return VACANT;
        if (!actor)
                return OTHER;
        r = shm_trie_exchange(actor, trie, c, SHM_TRIE_GONE);
        if (r == 0)
                shm_tally_add(actor, trie, SHM_MAP_DELETES, 1);
        return r == SHM_TRIE_E_CHANGED ? AGAIN : r < 0 ? r : OTHER;
}

/* Compares the leaf at the cursor with the key. Returns what match_word() returns. */
static int match_leaf(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *c,
                      ShmMapView *view) {
        uint64_t seen = c->value;
        int r;

        prefetch_leaf(trie, seen);
        if (shm_map_view_guessed(trie->arena, seen, key->hash, shm_hint_load(&trie->leaf_room), view) ||
            shm_map_view(trie->arena, seen, view) == 0) {
                bool same = shm_map_is_key(view, key);

                remember_room(trie, view);
                if (shm_map_view_live(trie->arena, view)) {
                        c->seen = seen;
                        c->seen_end = shm_map_view_end(view);
                        c->seen_flags = view->head.flags;
                        view->is_over = same && shm_map_is_over(trie, view);
                        /* It may have been replaced before its tag went: then the key was never absent. */
                        if (__builtin_expect(!view->is_over || !shm_map_view_has_tags(view), 1) ||
                            shm_map_view_live(trie->arena, view))
                                return same ? MINE : OTHER;
                }
        }
        /* A leaf is unlinked before it is freed. If it is still linked, it is stale for good. */
        r = shm_trie_reload(trie, c);
        if (r)
                return r;
        if (c->value != seen)
                return AGAIN;
        return match_stale(actor, trie, c);
}

/* Compares the entry at the cursor with the key. A Match, or an error; readers get only -EIDRM. */
static inline int match_word(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *c,
                             ShmMapView *view) {
        if (c->value == 0)
                return VACANT;
        if (!shm_trie_is_leaf(c->value))
                return c->value == shm_map_vacancy(trie, c, key->bytes, key->size) ? VACANT : OTHER;
        return match_leaf(actor, trie, key, c, view);
}

int shm_map_find_place(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *c,
                       ShmMapView *ret_view) {
        int r, match;

        r = shm_trie_seek(trie, key->hash, c);
        while (r == 0) {
                match = match_word(actor, trie, key, c, ret_view);
                if (match == MINE)
                        return 0;
                if (match == VACANT)
                        return SHM_MAP_E_ABSENT;
                if (match < 0)
                        return match;
                if (match == OTHER)
                        r = shm_trie_next(trie, c);
        }
        return r == SHM_TRIE_E_LAST ? SHM_MAP_E_TAKEN : r;
}

int shm_map_find(const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *c, ShmMapView *ret_view) {
        return shm_map_find_place(NULL, trie, key, c, ret_view);
}

int shm_map_copy(const ShmTrie *trie, const ShmMapView *view, uint32_t offset, void *buffer, uint32_t size) {
        uint64_t value;

        if (view->head.flags & SHM_LEAF_CHAINED)
                return shm_chain_copy(trie->arena, view, offset, buffer, size);
        if (view->head.flags & SHM_LEAF_CELL) {
                shm_map_view_copy(view, &value);
                shm_racy_copy_out(buffer, (const uint8_t *) &value + offset, size);
                return 0;
        }
        shm_racy_copy_out(buffer,
                          view->bytes + shm_leaf_value_off(view->head.key_size, view->head.flags) + offset,
                          size);
        return 0;
}

/* As shm_map_find(), but an entry that is over is absent, and the result is 0 or an error. */
static inline int find_present(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *view) {
        ShmTrieCursor c;
        int r = shm_map_find(trie, key, &c, view);

        return r < 0 ? r : r || view->is_over ? -ENOENT : 0;
}

/*
 * Whether a shortcut leads to the key's entry, which is there and not over. The bytes that are read after it count if
 * shm_map_view_live(), and the trie is there still. The trie is to be asked in all other cases.
 */
static bool look_at_shortcut(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *view) {
        uint64_t leaf = shm_shortcut_find(trie, key->hash);

        if (leaf == 0)
                return false;
        prefetch_leaf(trie, leaf);
        if (!shm_map_view_guessed(trie->arena, leaf, key->hash, shm_hint_load(&trie->leaf_room), view) &&
            shm_map_view(trie->arena, leaf, view) != 0)
                return false;
        if (!(view->head.flags & SHM_LEAF_SHORTCUT) || view->marks != 0 || view->head.map != trie->map ||
            (view->expires >> SHM_LEAF_END_BITS != 0 && view->expires != SHM_MAP_FOREVER) ||
            !shm_map_is_key(view, key) || !shm_map_view_live(trie->arena, view))
                return false;
        remember_room(trie, view);
        view->is_over = shm_map_is_over(trie, view);
        return !view->is_over;
}

/* Whether the map was there when a leaf without SHM_LEAF_MARKS was found. */
static bool is_there(const ShmTrie *trie) {
        return trie_live(trie->arena, trie->root) && !trie_is_removed(trie);
}

/* As shm_map_look() of a map with shortcuts; the result is 0 or an error. */
__attribute__((noinline)) static int look_in_large(const ShmTrie *trie, const ShmMapKey *key,
                                                   ShmMapView *view) {
        int r;

        if (look_at_shortcut(trie, key, view) && is_there(trie))
                return 0;
        r = find_present(trie, key, view);
        if (r == 0 && view->head.flags & SHM_LEAF_SHORTCUT && view->marks == 0)
                shm_shortcut_found(trie, key->hash, view->handle);
        return r;
}

int shm_map_look(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *ret_view) {
        int r = __builtin_expect(trie_has_shortcuts(trie), 0) ? look_in_large(trie, key, ret_view)
                                                              : find_present(trie, key, ret_view);

        if (r == 0)
                shm_evict_visit_entry(trie, ret_view);
        return r;
}

ssize_t shm_map_read(const ShmTrie *trie, uint64_t leaf, uint32_t offset, void *buffer, size_t size) {
        ShmMapView view;
        uint32_t rest;
        int r;

        if (shm_map_view(trie->arena, leaf, &view) != 0 || view.head.map != trie->map)
                return -ESTALE;
        rest = offset < view.head.value_size ? view.head.value_size - offset : 0;
        rest = rest < size ? rest : (uint32_t) size;
        r = shm_map_copy(trie, &view, offset, buffer, rest);
        if (!shm_map_view_live(trie->arena, &view))
                return -ESTALE;
        return trie_is_removed(trie) ? -EIDRM : r ?: (ssize_t) rest;
}

/* False: the entry went meanwhile, so the bytes do not count. */
static inline bool copy_value(const ShmTrie *trie, const ShmMapView *view, void *buffer, size_t size,
                              ssize_t *ret) {
        int r;

        *ret = -EMSGSIZE;
        if (view->head.value_size > size)
                return true;
        r = shm_map_copy(trie, view, 0, buffer, view->head.value_size);
        if (shm_map_view_live(trie->arena, view)) {
                shm_evict_visit_entry(trie, view);
                *ret = r ?: (ssize_t) view->head.value_size;
                return true;
        }
        return false;
}

/* As shm_map_get() of a map with shortcuts. */
__attribute__((noinline)) static ssize_t get_in_large(const ShmTrie *trie, const ShmMapKey *key, void *buffer,
                                                      size_t size, ShmMapView *view) {
        ssize_t n;
        int r;

        for (;;) {
                r = look_in_large(trie, key, view);
                if (r)
                        return r;
                if (copy_value(trie, view, buffer, size, &n))
                        return n;
        }
}

ssize_t shm_map_get(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                    ShmMapView *ret_view) {
        ShmMapView unwanted, *view = ret_view ?: &unwanted;
        ssize_t n;
        int r;

        if (__builtin_expect(trie_has_shortcuts(trie), 0))
                return get_in_large(trie, key, buffer, size, view);
        for (;;) {
                r = find_present(trie, key, view);
                if (r)
                        return r;
                if (copy_value(trie, view, buffer, size, &n))
                        return n;
        }
}

/* One attempt. SHM_TRIE_E_CHANGED: try again. */
static int delete_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t expected) {
        ShmTrieCursor c;
        ShmMapView view;
        int r;

        r = shm_map_find(trie, key, &c, &view);
        if (r)
                return r < 0 ? r : -ENOENT;
        if (view.is_over && !shm_map_settle_end(actor, &view))
                return SHM_TRIE_E_CHANGED;
        if (expected && c.value != expected)
                return view.is_over ? -ENOENT : -EAGAIN;
        r = shm_trie_exchange(actor, trie, &c, shm_map_vacancy(trie, &c, key->bytes, key->size));
        if (r == 0) {
                shm_shortcut_removed(actor, trie, key->hash);
                shm_tally_gone(actor, trie, view.is_over ? SHM_MAP_EXPIRATIONS : SHM_MAP_DELETES, &view);
        }
        return r == 0 && view.is_over && !(shm_map_view_is_claim(&view) && expected) ? -ENOENT : r;
}

int shm_map_delete(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t expected) {
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        if (__builtin_expect(trie_has_shortcuts(trie), 0))
                (void) shm_shortcut_prefetch_leaf(trie, key->hash);
        /* ORDER: sc, pairs with shm_map_claim(); the caller changed the data before, from which the value comes. */
        shm_fence_after_rmw();
        shm_tally_begin(actor, trie);
        do {
                r = delete_once(actor, trie, key, expected);
                if (r == -ENOBUFS && shm_trie_settle_kept(actor))
                        r = SHM_TRIE_E_CHANGED;
        } while (r == SHM_TRIE_E_CHANGED);
        shm_tally_end(actor, trie);
        return r;
}

uint32_t shm_maps_epoch(const ShmArena *arena, uint64_t *ret_handle) {
        ShmMaps maps;

        *ret_handle = 0;
        if (shm_root_get(arena, SHM_MAPS_ROOT, ret_handle) != 0 ||
            shm_object_copy(arena, *ret_handle, 0, &maps, sizeof(maps)) != 0 || maps.magic != SHM_MAPS_MAGIC)
                return 0;
        return maps.epoch;
}
