#pragma once
/* Where the pool has no memory left: the maps whose entries go for a put. For shm/map/evict.c. */
#include "shm/map/evict-hand.h"

/* A bit for each map that may evict, and for the put's own. */
static inline uint64_t shm_evict_maps(const ShmTrie *trie) {
        /* ORDER: rlx; a hint. */
        return shm_load_rlx(&trie->arena->header->evicting) | UINT64_C(1) << (trie->map - 1);
}

/* The other maps among them that have, or had, entries in the slab. */
static inline uint64_t shm_evict_others(const ShmTrie *trie, uint32_t slab) {
        /* ORDER: rlx; a hint. */
        return shm_load_rlx(&trie->arena->lines[slab].maps) & shm_evict_maps(trie) &
               ~(UINT64_C(1) << (trie->map - 1));
}

/* The map that root i names. False: it names none, or one that does not evict. */
bool shm_evict_open(ShmArena *arena, uint32_t i, ShmTrie *ret);

/*
 * Takes the next map whose entries are to go for a put into `trie` out of `maps`: the largest, or `trie` itself if none
 * is larger by a good deal. NULL: there is none left. `space` is for its view.
 */
const ShmTrie *shm_evict_from(const ShmTrie *trie, uint64_t *maps, ShmTrie *space);

/*
 * Whether a chained value of this cost has room where all maps give all that they have: else nothing is to be evicted
 * for it. True where that is not known.
 */
bool shm_evict_may_fit(const ShmTrie *trie, uint64_t cost);
