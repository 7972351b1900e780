#pragma once
/*
 * Eviction: a map that is full makes room for new entries by deleting others, those that were not used for longest
 * (SIEVE). A map is full at its limit, or where the pool has no memory left.
 */
#include "shm/map/leaf.h"
#include "shm/map/options.h"

/* A put that needs room. */
typedef struct ShmEvict {
        ShmMapOptions options; /* as the put began */
        uint64_t cost; /* as shm_map_view_cost() */
        uint32_t class; /* its leaf's */
        uint32_t epoch; /* as for shm_object_alloc() */
        bool chained;
        bool for_index; /* its leaf was made: a node lacks memory */
        uint64_t old; /* the leaf that it will replace, which stays until then; 0: none, or not known */
        uint64_t old_cost;
} ShmEvict;

/* Whether puts have to ask for room at all. */
static inline bool shm_evict_is_wanted(const ShmTrie *trie, const ShmMapOptions *options) {
        return trie->map != 0 && (options->evict != SHM_MAP_EVICT_NEVER || options->limit_bytes != 0);
}

void shm_evict_set_visited(const ShmTrie *trie, uint64_t leaf);

/* A leaf was used: the hand will pass it over once. A look is enough where it was used before. */
static inline void shm_evict_visit(const ShmTrie *trie, uint64_t leaf) {
        SlotId id = shm_handle_slot(leaf);

        if (trie->map == 0 || shm_map_options_evict(trie) == SHM_MAP_EVICT_NEVER)
                return;
        /* ORDER: rlx; a hint. */
        if (!(shm_load_rlx(&trie->arena->lines[slot_id_slab(id)].visited) >> slot_id_slot(id) & 1))
                shm_evict_set_visited(trie, leaf);
}

/* Whether entries of the map are to go for puts into others, too. A hint: the map's options are asked. */
void shm_evict_offer(const ShmTrie *trie, bool evicts);

/* A leaf is about to be linked; `cost`: as shm_map_view_cost(); `used`: in place of another one of its key. */
void shm_evict_mark(const ShmTrie *trie, uint64_t leaf, uint32_t class, uint64_t cost, bool used);

/*
 * Whether that has nothing to do: the map did not evict as the put began, and has, or had, entries in this slab, whose
 * range was marked before, and of this class.
 */
static inline bool shm_evict_is_marked(const ShmTrie *trie, const ShmMapOptions *options, uint64_t leaf) {
        const ShmSlabLine *line = &trie->arena->lines[slot_id_slab(shm_handle_slot(leaf))];
        /* ORDER: rlx; the slab's class stays, as the leaf is this thread's. */
        SlabWord word = { .high = shm_load_rlx(&line->word.high) };

        if (trie->map == 0)
                return true;
        /* ORDER: rlx; bits that are never cleared. ORDER: rlx; as the other. */
        return options->evict == SHM_MAP_EVICT_NEVER && shm_load_rlx(&line->maps) >> (trie->map - 1) & 1 &&
               shm_load_rlx(&trie->arena->header->maps[trie->map - 1].classes) >> slab_word_class(word) & 1;
}

/* Before a put makes its leaf: evicts where the map is full. -E2BIG: the entry alone exceeds the limit; -ENOSPC. */
int shm_evict_for_put(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict);

/*
 * After a put failed with -ENOMEM, for the n_tries-th time from 0 on: whether anything was evicted, so that it is to
 * try again.
 */
bool shm_evict_for_memory(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict, uint32_t n_tries);

/* Whether the map evicted for memory a moment ago, and made no whole slab free since. */
bool shm_evict_was_full(const ShmTrie *trie);
