#pragma once
/*
 * Eviction: a full map makes room for a new entry by deleting entries that were not used for a long time (SIEVE). A map
 * is full at its limit, or if the pool has no memory left.
 */
#include "shm/map/leaf/leaf.h"
#include "shm/map/state/options.h"
#include "shm/slab/set.h"

/* A put that needs room. */
typedef struct ShmEvict {
        ShmMapOptions options; /* as the map had them when the put began */
        uint64_t cost; /* bytes that the leaf takes, as shm_map_view_cost() counts them */
        uint32_t class; /* the class of the leaf */
        uint32_t epoch; /* as for shm_object_alloc() */
        bool chained;
        bool for_index; /* it has its leaf, but there was no memory for a node */
        uint64_t old; /* the leaf that it will replace, and that is not evicted; 0: none, or not known */
        uint64_t old_cost;
} ShmEvict;

/* Whether puts have to ask for room at all. */
static inline bool shm_evict_is_wanted(const ShmTrie *trie, const ShmMapOptions *options) {
        return trie->map != 0 && (options->evict != SHM_MAP_EVICT_NEVER || options->limit_bytes != 0);
}

void shm_evict_set_visited(const ShmTrie *trie, uint64_t leaf);

/* A leaf was used: the hand spares it once. If its bit is set already, nothing is written. */
static inline void shm_evict_visit(const ShmTrie *trie, uint64_t leaf) {
        SlotId id = shm_handle_slot(leaf);

        if (trie->map == 0 || shm_map_options_evict(trie) == SHM_MAP_EVICT_NEVER)
                return;
        if (!(shm_hint_load(&trie->arena->lines[slot_id_slab(id)].visited) >> slot_id_slot(id) & 1))
                shm_evict_set_visited(trie, leaf);
}

void shm_evict_visit_tags(const ShmTrie *trie, const ShmMapView *view);

/* An entry was used, and so its tags were: without them it would be absent. */
static inline void shm_evict_visit_entry(const ShmTrie *trie, const ShmMapView *view) {
        shm_evict_visit(trie, view->handle);
        if (__builtin_expect(shm_map_view_has_tags(view), 0))
                shm_evict_visit_tags(trie, view);
}

/* Says whether puts into other maps may evict this map's entries. A hint: its options decide. */
void shm_evict_offer(const ShmTrie *trie, bool evicts);

/* To be called before the leaf is linked. `cost`: as shm_map_view_cost(); `used`: it replaces an entry of its key. */
void shm_evict_mark(const ShmTrie *trie, uint64_t leaf, uint32_t class, uint64_t cost, bool used);

/* Puts the leaf's slab into the map's set. To be called after the leaf was linked. Mostly it is there already. */
static inline void shm_evict_mark_slab(const ShmTrie *trie, uint64_t leaf) {
        uint32_t slab = slot_id_slab(shm_handle_slot(leaf));
        uint64_t maps;

        if (trie->map == 0)
                return;
        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_set_forget(); the leaf was linked before. */
        maps = shm_load_sc(
                &trie->arena->lines[slab].maps); /* ORDER: sc, pairs with shm_set_forget(); as above. */
        if (__builtin_expect(!shm_set_has_for_map(trie->arena, trie->map, slab, maps), 0))
                shm_set_add_for_map(trie->arena, trie->map, slab);
}

/* Whether shm_evict_mark() has nothing to do: the map did not evict when the put began, and had this class before. */
static inline bool shm_evict_is_marked(const ShmTrie *trie, const ShmMapOptions *options, uint64_t leaf) {
        const ShmSlabLine *line = &trie->arena->lines[slot_id_slab(shm_handle_slot(leaf))];
        /* ORDER: rlx; the slab's class stays, as the leaf is this thread's. */
        SlabWord word = { .high = shm_load_rlx(&line->word.high) };

        if (trie->map == 0)
                return true;
        return options->evict == SHM_MAP_EVICT_NEVER &&
               /* ORDER: rlx; bits that are never cleared. */
               shm_load_rlx(&trie->arena->header->maps[trie->map - 1].classes) >> slab_word_class(word) & 1;
}

/*
 * Before a put makes its leaf: evicts if the map is full. -E2BIG: the entry alone exceeds the limit; -ENOSPC: the map
 * would exceed it, and does not evict; -ENOBUFS: no note is left.
 */
int shm_evict_for_put(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict);

/*
 * After a put failed with -ENOMEM. `n_tries`: earlier calls for this put. True: entries were evicted, and the put is to
 * be tried again.
 */
bool shm_evict_for_memory(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict, uint32_t n_tries);

/*
 * After an allocation of `size` bytes failed with -ENOMEM, outside of an operation. True: entries of maps that evict
 * are gone for it, and it is to be tried again.
 */
bool shm_evict_for_object(ShmActor *actor, uint64_t size, uint32_t n_tries);

/* Whether the map evicted for memory a moment ago, and has not emptied whole slabs since. */
bool shm_evict_was_full(const ShmTrie *trie);
