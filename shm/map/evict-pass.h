#pragma once
/* Entries that hands pass, and those of them that go. For shm/map/evict.c. */
#include "shm/map/evict-hand.h"

#define ENDS_MAX 10 /* a search: of a young sweep, a full one, two more, and what was young; two each */
#define ANY_KEY UINT64_MAX
#define NO_KEY (UINT64_MAX - 1)

/* Deletes the entry in a slot, if it is one of the map's. Returns its cost, or 0. `old` stays, here and below. */
uint64_t shm_evict_slot(ShmActor *actor, const ShmTrie *trie, SlotId id, uint64_t old);

/*
 * Moves the hand of a class to the next entry that goes, over n ends at most: that of its slabs, and that of its sweep.
 * Returns the entry's cost; 0: there was none.
 */
uint64_t shm_evict_next(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t n,
                        uint64_t old);

/* The next entry of any class. Returns its cost, or 0. */
uint64_t shm_evict_any(ShmActor *actor, const ShmTrie *trie, uint64_t old);

/*
 * A slab with entries, and not with `old` alone, whose slots are of no use for `key`; behind the hand from now on.
 * UINT32_MAX: there is none.
 */
uint32_t shm_evict_take_slab(const ShmTrie *trie, uint64_t key, uint64_t old);
