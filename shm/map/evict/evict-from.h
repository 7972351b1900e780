#pragma once
/* The maps whose entries are evicted for a put if the pool has no memory left. For shm/map/evict/evict.c. */
#include "shm/map/evict/evict-hand.h"

/* `trie` in all calls here: the map of the put; its `map` is 0 if it does not evict, or if an object is to be made. */

static inline uint64_t shm_evict_own(const ShmTrie *trie) {
        return trie->map != 0 ? UINT64_C(1) << (trie->map - 1) : 0;
}

/* The bits of all maps that may have entries to evict. */
static inline uint64_t shm_evict_maps(const ShmTrie *trie) {
        return shm_hint_load(&trie->arena->header->evicting);
}

/* A bit for each map of a slab: the maps that have, or had, entries in it, without the put's own map. */
static inline uint64_t shm_evict_others(const ShmTrie *trie, uint32_t slab) {
        return shm_hint_load(&trie->arena->lines[slab].maps) & shm_evict_maps(trie) & ~shm_evict_own(trie);
}

/* The map that root i names. False: it names none, or one that does not evict. */
bool shm_evict_open(ShmArena *arena, uint32_t i, ShmTrie *ret);

/*
 * The next map whose entries are evicted for a put into `trie`; its bit in *maps is cleared. It is the largest one, or
 * `trie` itself if no other is larger by more than an eighth. NULL: no map is left. The result may be in *space.
 */
const ShmTrie *shm_evict_from(const ShmTrie *trie, uint64_t *maps, ShmTrie *space);

/* A mix of the counts of all maps that evict: it is another one after entries of theirs came or went. */
uint64_t shm_evict_stamp(ShmArena *arena);

/*
 * Whether a chained value of this cost would have room if all maps that evict had no entries. If not, nothing is to be
 * evicted for it. True if this is not known.
 */
bool shm_evict_may_fit(const ShmTrie *trie, uint64_t cost);
