/*
 * Maps: puts
 *
 * Purpose: makes a leaf, and links it at the place of its key.
 *
 * Invariants: see map.c.
 *
 * Who may do what: writers, see trie-walk.c.
 *
 * Crash: see trie-walk.c. A put that was killed has either replaced the entry or changed nothing. Repair frees its leaf
 *   if no word of the trie holds it.
 */
#include "shm/arch/probe.h"
#include "shm/map/entry/map.h"

#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/cache/cache.h"
#include "shm/map/entry/shortcut.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-shrink.h"

#define CLAIMS_EXCESS_SHARE 16 /* threads have less than this share of the limit in tallies */

static uint32_t value_max_option(const ShmMapOptions *options) {
        return options->value_max ?: SHM_MAP_VALUE_MAX_DEFAULT;
}

uint32_t shm_map_value_max(const ShmTrie *trie) {
        const ShmMapOptions options = shm_map_options(trie);
        uint32_t max = value_max_option(&options), most = shm_chain_size_max(trie->arena);

        return max < most ? max : most;
}

typedef struct NewLeaf {
        uint64_t handle; /* 0: there is none yet */
        ShmMapLeaf head; /* not sealed; `epoch` and `expires` are valid once there is a leaf */
        size_t size; /* the smallest slot that it needs */
        uint32_t shortcut; /* SHM_LEAF_SHORTCUT, or 0 */
        uint64_t *line; /* with it: where the shortcut is to be, */
        uint64_t *end; /* and the leaf's end */
        bool is_short; /* a chain of the fewest chunks that can hold the value */
        bool lacks_part; /* it had a slot, but there was none for a part of its value, or for a node */
        ShmCacheMode mode; /* the actor's, between puts */
        ShmEvict evict; /* for eviction, if the map is full */
} NewLeaf;

/* Computes head and size of the leaf. False: the key or the value is too large for the map. */
static inline __attribute__((always_inline)) bool leaf_plan(const ShmTrie *trie, const ShmMapKey *key,
                                                            const ShmMapPut *put, bool is_short,
                                                            NewLeaf *ret) {
        const ShmArena *arena = trie->arena;
        uint32_t key_max = (uint32_t) shm_map_key_max(arena), head_size = key->size, chained;
        uint32_t flags = put->flags | put->n_tags << SHM_LEAF_TAGS_SHIFT;

        if (__builtin_expect(put->claim || put->n_tags, 0))
                head_size = shm_leaf_value_off(key->size, flags); /* tags and claim follow the key */
        chained = shm_chain_head_size(arena, head_size, put->value_size, is_short);
        /* The stale value of a claim was put when the map took such values. */
        if (key->size > key_max || (!put->claim && put->value_size > value_max_option(&ret->evict.options)) ||
            (chained && (head_size > key_max || put->value_size > shm_chain_size_max(arena))))
                return false;
        ret->head = (ShmMapLeaf){
                .hash = key->hash,
                .key_size = (uint16_t) key->size,
                .value_size = put->value_size,
                .flags = (uint16_t) (flags | ret->shortcut | (chained ? SHM_LEAF_CHAINED : 0)),
                .map = trie->map,
        };
        ret->size = chained ?: shm_leaf_size(key->size, put->value_size, flags);
        ret->is_short = is_short;
        return true;
}

static uint32_t leaf_room(const ShmTrie *trie, const NewLeaf *leaf) {
        return trie->arena->classes[shm_arena_class(trie->arena, leaf->size)].size;
}

static uint64_t leaf_cost(const ShmTrie *trie, const NewLeaf *leaf) {
        return shm_leaf_cost(trie->arena, &leaf->head, leaf_room(trie, leaf));
}

/* Sets how many bytes, and slots of which class, an eviction has to free for the leaf. */
static void leaf_measure(const ShmTrie *trie, NewLeaf *leaf) {
        leaf->evict.cost = leaf_cost(trie, leaf);
        leaf->evict.class = shm_arena_class(trie->arena, leaf->size);
        leaf->evict.chained = leaf->evict.cost > shm_leaf_cost_unchained_max(trie->arena);
}

/* Plans the leaf with the fewest chunks. False: it has the fewest already, or would exceed the map's limit. */
static bool leaf_plan_short(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                            NewLeaf *leaf) {
        size_t before = leaf->size;

        if (!leaf_plan(trie, key, put, true, leaf) || leaf->size <= before)
                return false;
        leaf_measure(trie, leaf);
        return !shm_evict_is_wanted(trie, &leaf->evict.options) ||
               shm_evict_for_put(actor, trie, &leaf->evict) == 0;
}

/* Whether there are free slabs to spare, and enough of them: each chunk but the last takes one. */
static bool has_slabs(const ShmArena *arena, const NewLeaf *leaf) {
        uint64_t n_free = shm_hint_load(&arena->header->n_free.value);

        return n_free > 0 &&
               (!shm_chain_takes_slabs(arena) || n_free >= leaf->head.value_size / SHM_SLAB_SIZE);
}

/*
 * The leaf, or a part of its value, may have taken the last free slab though another slab had a slot for it: a cache
 * has slots of both. So the put is tried once more, past the caches and sparing free slabs. False: that was done, or
 * does not help, or the leaf itself had no slot.
 */
static bool spare_slabs(ShmActor *actor, const ShmTrie *trie, NewLeaf *leaf) {
        bool lacked_part = leaf->lacks_part;

        leaf->lacks_part = false;
        if (!lacked_part || actor->mode == SHM_CACHE_SPARING)
                return false;
        shm_actor_enter(actor);
        (void) shm_cache_drain(actor);
        shm_actor_leave(actor);
        if (!has_slabs(trie->arena, leaf))
                return false;
        actor->mode = SHM_CACHE_SPARING;
        return true;
}

/*
 * There was no memory for the leaf, or for a node. Returns whether the put is to be tried again. These are tried, in
 * this order: free slabs are spared; the leaf has the fewest chunks, unless the pool was full a moment ago; entries are
 * evicted; and, if there is nothing to evict, the leaf has the fewest chunks.
 */
__attribute__((noinline, cold)) static bool leaf_try_again(ShmActor *actor, const ShmTrie *trie,
                                                           const ShmMapKey *key, const ShmMapPut *put,
                                                           NewLeaf *leaf, uint32_t *n_evicted) {
        bool was_short = leaf->is_short;

        if (spare_slabs(actor, trie, leaf))
                return true;
        actor->mode = leaf->mode;
        if (*n_evicted == 0 && !was_short && !shm_evict_was_full(trie) &&
            leaf_plan_short(actor, trie, key, put, leaf))
                return true;
        if (leaf->is_short)
                (void) leaf_plan(trie, key, put, false, leaf);
        leaf_measure(trie, leaf);
        if (shm_evict_for_memory(actor, trie, &leaf->evict, (*n_evicted)++))
                return true;
        return !was_short && leaf_plan_short(actor, trie, key, put, leaf);
}

static bool put_try_again(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                          NewLeaf *leaf, uint32_t *n_evicted) {
        if (!leaf_try_again(actor, trie, key, put, leaf, n_evicted))
                return false;
        shm_cache_uncount_failure(actor);
        return true;
}

/* A late thread that still works on the earlier leaf of this slot expects other values in these words, and so fails. */
static void seal_words(ShmMapLeaf *leaf, uint64_t end, uint64_t *word, uint64_t seal) {
        if (leaf->flags & SHM_LEAF_CELL)
                shm_store_rlx(word, *word ^ seal); /* ORDER: rlx; before it is linked. */
        /* ORDER: rel, pairs with shm_map_view(); a walk over slots that finds it finds the rest of the leaf. */
        shm_store_rel(&leaf->expires, end ^ seal);
}

/*
 * Late readers of the earlier object in this slot may still read here; they find afterwards that its tag has changed.
 * `end` is a parameter, and not in the head: if it had just been stored there, the copy of the head would wait for that
 * store.
 */
static void leaf_fill(void *object, const ShmMapLeaf *head, uint64_t end, const ShmMapKey *key,
                      const ShmMapPut *put, uint64_t seal) {
        uint8_t *bytes = (uint8_t *) object + sizeof(*head);
        uint8_t *value = bytes + shm_leaf_value_off(key->size, head->flags);

        shm_racy_copy(object, head, sizeof(*head));
        shm_racy_copy(bytes, key->bytes, key->size);
        if (put->claim)
                shm_racy_copy(bytes + shm_leaf_value_off(key->size, head->flags) - sizeof(ShmClaim),
                              put->claim, sizeof(ShmClaim));
        if (put->n_tags)
                shm_racy_copy(bytes + ((key->size + 7U) & ~7U), put->tags, put->n_tags * sizeof(*put->tags));
        if (!(head->flags & SHM_LEAF_CHAINED))
                shm_racy_copy(value, put->value, put->value_size);
        seal_words(object, end, (uint64_t *) value, seal);
}

static uint64_t *leaf_word(void *object, const ShmMapLeaf *head) {
        return (uint64_t *) ((uint8_t *) object + sizeof(*head) +
                             shm_leaf_value_off(head->key_size, head->flags));
}

/* Frees a leaf that is noted, and that no word holds. Also removes the node that was made for it, if there is one. */
static void leaf_free(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t leaf) {
        (void) shm_chain_free(actor, leaf);
        (void) shm_trie_shrink(actor, trie, key->hash);
        (void) shm_actor_unnote(actor, leaf);
}

/* The leaf of a claim stays until both the claim and its stale value have ended. */
static uint64_t claim_end(const ShmClaim *claim, uint32_t stale_ms) {
        uint64_t until = shm_claim_stale_until(claim, stale_ms);

        return claim->ends > until ? claim->ends : until;
}

static uint64_t leaf_end(const ShmTrie *trie, const ShmMapOptions *options, const ShmMapPut *put) {
        uint64_t ttl_ms = put->ttl_ms ?: options->ttl_ms ?: SHM_MAP_TTL_NONE;

        if (put->claim)
                return claim_end(put->claim, options->stale_ms);
        if (put->end_ms || ttl_ms == SHM_MAP_TTL_NONE)
                return put->end_ms ?: (put->n_tags ? SHM_MAP_FOREVER : 0);
        return shm_map_end(trie, ttl_ms);
}

/* Allocates, fills and notes the leaf, in the epoch that its head names. */
static int leaf_make(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                     NewLeaf *leaf) {
        const ShmPending pending = { .root = trie->root, .hash = key->hash };
        ShmMapLeaf *head = &leaf->head;
        uint64_t handle, end;
        void *object;
        int r;

        r = shm_object_alloc(actor, leaf->size, head->epoch, &pending, &handle, &object);
        if (r)
                return r;
        leaf->end = &((ShmMapLeaf *) object)->expires;
        end = leaf_end(trie, &leaf->evict.options, put);
        if (put->n_tags)
                shm_map_hold_tags(actor, trie, put->tags, put->n_tags, end);
        leaf_fill(object, head, end | (leaf->shortcut ? SHM_LEAF_ARRIVING : 0), key, put,
                  shm_leaf_seal(handle));
        head->expires = end;
        if (head->flags & SHM_LEAF_CHAINED)
                r = shm_chain_fill(actor, handle, head, leaf_room(trie, leaf), leaf_word(object, head),
                                   put->value);
        if (r) {
                leaf_free(actor, trie, key, handle);
                leaf->lacks_part = true;
        } else {
                leaf->handle = handle;
        }
        return r;
}

/* The leaf contains its epoch's number with the era, so the number is needed before the leaf is allocated. */
static int leaf_epoch(const ShmActor *actor, const ShmTrie *trie, uint32_t epoch, bool ask, uint32_t *ret) {
        uint32_t id, era;
        int r;

        if (!ask && epoch == SHM_EPOCH_CURRENT && shm_cache_current(actor, ret))
                return 0;
        r = shm_epoch_admit(trie->arena, epoch, &id, &era);
        if (r == 0)
                *ret = shm_epoch_number(id, era);
        return r;
}

static int leaf_new(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                    NewLeaf *ret) {
        bool whichever = put->epoch == SHM_EPOCH_CURRENT || put->epoch >> 8 == 0;
        int r;

        /* The era may end before the leaf is allocated: try again with the new one. Bounded: the table is input. */
        for (int tries = 0; tries < 4; tries++) {
                r = leaf_epoch(actor, trie, put->epoch, tries > 0, &ret->head.epoch);
                r = r ?: leaf_make(actor, trie, key, put, ret);
                if (__builtin_expect((r != -ESTALE && r != -ESHUTDOWN) || !whichever, 1))
                        break;
        }
        return whichever && r == -ESTALE ? -ESHUTDOWN : r;
}

/* Whether the mode allows a put while the key's entry has this version; 0: there is no entry. */
static int admit_put(const ShmMapPut *put, uint64_t version) {
        switch (put->mode) {
        case SHM_MAP_PUT:
                return 0;
        case SHM_MAP_INSERT:
                return version ? -EEXIST : 0;
        case SHM_MAP_UPDATE:
                return version ? 0 : -ENOENT;
        case SHM_MAP_REPLACE:
        case SHM_MAP_EXACT:
                return version == put->expected ? 0 : -EAGAIN;
        }
        return -EINVAL;
}

/* Two chains of the same size may cost different amounts: one may have been made of fewer chunks. */
static bool is_same_size(const ShmTrie *trie, const NewLeaf *a, const ShmMapView *b) {
        return a->head.key_size == b->head.key_size && a->head.value_size == b->head.value_size &&
               a->head.flags == b->head.flags &&
               (!(a->head.flags & SHM_LEAF_CHAINED) || leaf_room(trie, a) == b->room);
}

/* Counts a put that was done. `old`: the leaf that it replaced, or NULL; then `was` is the replaced word, or 0. */
static void tally_put(ShmActor *actor, const ShmTrie *trie, const NewLeaf *leaf, const ShmMapView *old,
                      uint64_t was) {
        const ShmMapLeaf *head = &leaf->head;
        uint64_t cost;

        if (old && !old->is_over && is_same_size(trie, leaf, old))
                return;
        cost = leaf_cost(trie, leaf);
        if (old)
                cost -= shm_map_view_cost(trie->arena, old);
        if (!old || (old->is_over && !shm_map_view_is_claim(old)))
                shm_tally_add(actor, trie, SHM_MAP_INSERTS, 1);
        if (old && old->is_over && !shm_map_view_is_claim(old)) {
                shm_probe(expire, shm_trie_name(trie), head->hash);
                shm_tally_add(actor, trie, SHM_MAP_EXPIRATIONS, 1);
        }
        if (old && shm_map_view_is_claim(old))
                shm_wait_wake(trie, head->hash);
        if (!old && shm_trie_is_leaf(was))
                shm_tally_add(actor, trie, SHM_MAP_DELETES, 1); /* a stale one */
        shm_tally_add(actor, trie, SHM_MAP_BYTES, cost);
}

/*
 * Whether the put may go on. An expired entry counts as absent. If the mode depends on that, the end is settled first,
 * so that no other thread can prolong the entry. A claim counts as absent, too, except for the put that fulfils it.
 */
static int admit_over(ShmActor *actor, const ShmMapPut *put, int found, const ShmMapView *view) {
        if (found != 0)
                return admit_put(put, 0);
        if (!view->is_over || put->mode == SHM_MAP_EXACT)
                return admit_put(put, view->handle);
        if (shm_map_view_is_claim(view))
                return admit_put(put, put->mode == SHM_MAP_REPLACE && put->expected == view->handle
                                              ? view->handle
                                              : 0);
        if (put->mode != SHM_MAP_PUT && !shm_map_settle_end(actor, view))
                return SHM_TRIE_E_CHANGED;
        return admit_put(put, 0);
}

/* Makes room for the leaf by eviction. `old`: the entry that the leaf will replace, or NULL. */
static int make_room(ShmActor *actor, const ShmTrie *trie, const ShmMapPut *put, const ShmMapView *old,
                     NewLeaf *leaf) {
        leaf->evict = (ShmEvict){
                .options = leaf->evict.options,
                .epoch = put->epoch,
                .old = old ? old->handle : 0,
                .old_cost = old ? shm_map_view_cost(trie->arena, old) : 0,
        };
        leaf_measure(trie, leaf);
        return shm_evict_for_put(actor, trie, &leaf->evict);
}

/*
 * Claims that stand are not evicted, so that a map could come to have nothing else. A put then exceeds the limit; a
 * further claim must not.
 */
static bool is_full_of_claims(const ShmTrie *trie, const ShmMapPut *put, const NewLeaf *leaf) {
        uint64_t limit = leaf->evict.options.limit_bytes;

        return put->claim && limit != 0 && trie->map != 0 &&
               shm_map_bytes(trie) + leaf->evict.cost >
                       limit + limit / CLAIMS_EXCESS_SHARE + leaf->evict.old_cost;
}

static int leaf_new_with_room(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key,
                              const ShmMapPut *put, const ShmMapView *old, NewLeaf *leaf) {
        int r = shm_evict_is_wanted(trie, &leaf->evict.options) ? make_room(actor, trie, put, old, leaf) : 0;

        if (r == 0 && is_full_of_claims(trie, put, leaf))
                r = -ENOSPC;
        r = r ?: leaf_new(actor, trie, key, put, leaf);
        if (r == 0 && !shm_evict_is_marked(trie, &leaf->evict.options, leaf->handle))
                shm_evict_mark(trie, leaf->handle, shm_arena_class(trie->arena, leaf->size), leaf->evict.cost,
                               old && !old->is_over);
        return r;
}

/*
 * Whether the leaf is made before the search for its place. The search waits for cache misses, and does so while the
 * last bytes of a large value are still being stored. It must not depend on the search whether a leaf is needed, nor
 * which one.
 */
static bool leaf_is_first(const ShmTrie *trie, const ShmMapPut *put, const NewLeaf *leaf) {
        return leaf->head.flags & SHM_LEAF_CHAINED && leaf->handle == 0 && put->mode == SHM_MAP_PUT &&
               !shm_evict_is_wanted(trie, &leaf->evict.options);
}

/*
 * The leaf is linked: a get may believe its shortcut. If another thread has moved its end meanwhile, no get ever does.
 * The next owner of the slot is safe, as in shm_map_set_end().
 */
static void leaf_arrive(ShmActor *actor, const NewLeaf *leaf) {
        uint64_t end = leaf->head.expires ^ shm_leaf_seal(leaf->handle), expected = end ^ SHM_LEAF_ARRIVING;

        if (!shm_actor_guard(actor, leaf->handle))
                return;
        /* ORDER: acqrel, pairs with shm_map_view(); after the leaf was linked. */
        (void) shm_cas_acqrel(leaf->end, &expected, end);
        shm_actor_unguard(actor);
}

/* One attempt. SHM_TRIE_E_CHANGED: try again. The leaf is made in the first attempt that needs it, and then kept. */
static int put_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                    NewLeaf *leaf) {
        bool is_first = __builtin_expect(leaf_is_first(trie, put, leaf), 0);
        int found = SHM_MAP_E_ABSENT, r;
        ShmTrieCursor c;
        ShmMapView view;
        uint64_t was;

        if (!is_first) {
                found = shm_map_find_place(actor, trie, key, &c, &view);
                if (found < 0)
                        return found;
                r = admit_over(actor, put, found, &view);
                if (r)
                        return r;
        }
        /* Before a split, the leaf's note tells repair where to look for a node that the split left empty. */
        if (leaf->handle == 0) {
                r = leaf_new_with_room(actor, trie, key, put, found == 0 ? &view : NULL, leaf);
                if (r || is_first)
                        return r ?: SHM_TRIE_E_CHANGED;
        }
        was = found == SHM_MAP_E_TAKEN ? 0 : c.value;
        if (found == SHM_MAP_E_TAKEN)
                r = shm_trie_split(actor, trie, &c, leaf->handle);
        else
                r = shm_trie_exchange(actor, trie, &c, leaf->handle);
        if (r)
                return r;
        shm_evict_mark_slab(trie, leaf->handle);
        if (__builtin_expect(leaf->shortcut, 0)) {
                leaf_arrive(actor, leaf);
                shm_shortcut_put(actor, trie, key->hash, leaf->handle, leaf->line);
        } else if (__builtin_expect(shm_shortcut_is_turn(key->hash), 0))
                shm_shortcut_begin(actor, trie);
        tally_put(actor, trie, leaf, found == 0 ? &view : NULL, was);
        return 0;
}

int shm_map_refuse_large(ShmActor *actor, size_t key_size, size_t value_size) {
        size_t size;

        if (__builtin_add_overflow(key_size, value_size, &size) ||
            __builtin_add_overflow(size, sizeof(ShmMapLeaf), &size))
                size = SIZE_MAX;
        shm_actor_count_too_large(actor, SHM_COUNT_VALUES_TOO_LARGE, size);
        return -E2BIG;
}

int shm_map_put(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                uint64_t *ret_version) {
        NewLeaf leaf;
        uint32_t n_evicted = 0;
        int r;

        /* Member by member: to clear all of it, a compiler uses a string instruction, which takes 8 ns. */
        leaf.handle = 0;
        leaf.lacks_part = false;
        leaf.mode = actor->mode;
        leaf.evict = (ShmEvict){ .options = shm_map_options(trie) };
        leaf.shortcut = 0;
        if (__builtin_expect(trie_has_shortcuts(trie), 0)) {
                leaf.line = shm_shortcut_prefetch_leaf(trie, key->hash);
                leaf.shortcut = put->flags == 0 && !put->claim ? SHM_LEAF_SHORTCUT : 0;
        }
        if (!leaf_plan(trie, key, put, false, &leaf))
                return shm_map_refuse_large(actor, key->size, put->value_size);
        shm_tally_begin(actor, trie);
        do {
                r = put_once(actor, trie, key, put, &leaf);
                leaf.evict.for_index = leaf.handle != 0;
                /* If the leaf's epoch was revoked, the leaf is stale, and the put begins again with a new leaf. */
                if (r && r != SHM_TRIE_E_CHANGED && leaf.handle) {
                        leaf_free(actor, trie, key, leaf.handle);
                        leaf.handle = 0;
                        leaf.lacks_part = true;
                }
                if (r == -ENOBUFS && shm_trie_settle_kept(actor))
                        r = SHM_TRIE_E_CHANGED;
        } while (r == SHM_TRIE_E_CHANGED || r == SHM_TRIE_E_STALE ||
                 (r == -ENOMEM && put_try_again(actor, trie, key, put, &leaf, &n_evicted)));
        actor->mode = leaf.mode;
        if (r == 0 && leaf.head.expires != 0)
                shm_expiry_note(trie->arena, leaf.handle, leaf.head.expires);
        shm_tally_end(actor, trie);
        if (r == -E2BIG)
                return shm_map_refuse_large(actor, key->size, put->value_size);
        if (r == 0 && ret_version)
                *ret_version = leaf.handle;
        return r;
}

void shm_map_count_failure(ShmActor *actor, const ShmTrie *trie) {
        shm_tally_begin(actor, trie);
        shm_tally_add(actor, trie, SHM_MAP_FAILURES, 1);
        shm_tally_end(actor, trie);
}
