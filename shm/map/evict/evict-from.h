#pragma once
/* The maps whose entries are evicted for a put if the pool has no memory left. For shm/map/evict/evict.c. */
#include "shm/arena/map-set.h"
#include "shm/map/evict/evict-hand.h"
#include "shm/slab/set.h"

/* `trie` in all calls here: the map of the put; its `map` is 0 if it does not evict, or if an object is to be made. */

static inline ShmMapSet shm_evict_own(const ShmTrie *trie) {
        return shm_map_set_of(trie->map - 1);
}

/* All maps that may have entries to evict. */
static inline ShmMapSet shm_evict_maps(const ShmTrie *trie) {
        return shm_map_set_load(&trie->arena->header->evicting);
}

/* The maps that have, or had, entries in a slab, or have the same bit as these, without the put's own map. */
static inline ShmMapSet shm_evict_others(const ShmTrie *trie, uint32_t slab) {
        uint64_t bits = shm_hint_load(&trie->arena->lines[slab].maps);
        ShmMapSet maps = shm_evict_maps(trie), own = shm_evict_own(trie);

        maps.bits[0] &= bits;
        bits = bits >> SHM_SET_OWN_BITS << SHM_SET_OWN_BITS | bits >> SHM_SET_OWN_BITS;
        for (uint32_t k = 1; k < 4; k++)
                maps.bits[k] &= bits;
        return shm_map_set_less(&maps, &own);
}

/* The map that root i names. False: it names none, or one that does not evict. */
bool shm_evict_open(ShmArena *arena, uint32_t i, ShmTrie *ret);

/*
 * The next map whose entries are evicted for a put into `trie`; it is taken out of *maps. It is the largest one, or
 * `trie` itself if no other is larger by more than an eighth. NULL: no map is left. The result may be in *space.
 */
const ShmTrie *shm_evict_from(const ShmTrie *trie, ShmMapSet *maps, ShmTrie *space);

/* All maps that evict, and a mix of their counts: it is another one after entries of theirs came or went. */
uint64_t shm_evict_stamp(ShmArena *arena, ShmMapSet *ret_maps);

/* Whether the entries of maps that evict take as much memory as a chained value of this cost. */
bool shm_evict_is_offered(const ShmTrie *trie, uint64_t cost);
/*
 * Whether a larger one would have room if all these maps had no entries. If not, nothing is to be evicted for it. True
 * if this is not known. Walks over all slabs.
 */
bool shm_evict_may_fit(const ShmTrie *trie, uint64_t cost);
