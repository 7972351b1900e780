#pragma once
/* The maps whose entries are evicted for a put if the pool has no memory left. For shm/map/evict/evict.c. */
#include "shm/map/evict/evict-hand.h"

/* The bits of all maps that may evict, and of the put's own map. */
static inline uint64_t shm_evict_maps(const ShmTrie *trie) {
        /* ORDER: rlx; a hint. */
        return shm_load_rlx(&trie->arena->header->evicting) | UINT64_C(1) << (trie->map - 1);
}

/* The same for a slab: the maps that have, or had, entries in it, without the put's own map. */
static inline uint64_t shm_evict_others(const ShmTrie *trie, uint32_t slab) {
        /* ORDER: rlx; a hint. */
        return shm_load_rlx(&trie->arena->lines[slab].maps) & shm_evict_maps(trie) &
               ~(UINT64_C(1) << (trie->map - 1));
}

/* The map that root i names. False: it names none, or one that does not evict. */
bool shm_evict_open(ShmArena *arena, uint32_t i, ShmTrie *ret);

/*
 * The next map whose entries are evicted for a put into `trie`; its bit in *maps is cleared. It is the largest one, or
 * `trie` itself if no other is larger by more than an eighth. NULL: no map is left. The result may be in *space.
 */
const ShmTrie *shm_evict_from(const ShmTrie *trie, uint64_t *maps, ShmTrie *space);

/*
 * Whether a chained value of this cost would have room if all maps that evict had no entries. If not, nothing is to be
 * evicted for it. True if this is not known.
 */
bool shm_evict_may_fit(const ShmTrie *trie, uint64_t cost);
