#pragma once
/* Passing over entries, and deleting the entries that are not spared. For shm/map/evict/evict.c. */
#include "shm/map/evict/evict-hand.h"

/*
 * A search stops after as many ends. It needs five sweeps at most: a young and a full one, which clear visited bits,
 * two more, and one for entries that were young. Each sweep counts two: the end of its slabs, and its own.
 */
#define ENDS_MAX 10
#define ANY_KEY UINT64_MAX
#define NO_KEY (UINT64_MAX - 1)

/* Deletes the entry in a slot, if the map holds it. Returns its cost, or 0. The leaf `old` stays, here and below. */
uint64_t shm_evict_slot(ShmActor *actor, const ShmTrie *trie, SlotId id, uint64_t old);

/*
 * Slabs that a search for one entry looks at, in 2 ms. The next search goes on from there. Without a bound, a put takes
 * 9 ms in a pool of 512 MiB, and longer in a larger one, while the count of the map is too high: as long as entries
 * that were revoked are still counted. A search without which the put would fail has no bound.
 */
#define LOOKS_MAX (UINT64_C(1) << 18)
#define LOOKS_ALL UINT64_MAX

/*
 * Moves the hand of a class on until it has deleted an entry, has met `n` ends, or has looked at `looks` slabs. A sweep
 * has two ends, that of its slabs and its own. Returns the cost of the entry; 0: there was none.
 */
uint64_t shm_evict_next(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t n,
                        uint64_t looks, uint64_t old);

/* Deletes the next entry of any class, within LOOKS_MAX slabs. Returns its cost, or 0. */
uint64_t shm_evict_any(ShmActor *actor, const ShmTrie *trie, uint64_t old);

/*
 * Chooses a slab that has entries other than `old`, and whose slots are of no use for `key`, and moves the hand of its
 * class past it. UINT32_MAX: there is none.
 */
uint32_t shm_evict_take_slab(const ShmTrie *trie, uint64_t key, uint64_t old);
