#pragma once
/*
 * Counters and rate limits: entries whose value is one sealed word, which changes in place. Their version names the
 * cell, and stays while the value changes.
 */
#include "shm/map/map.h"

typedef struct ShmMapAdd {
        int64_t delta; /* sums are modulo 2^64 */
        int64_t initial; /* the value that an absent key counts as */
        uint32_t ttl_ms, epoch; /* as in ShmMapPut, for a counter that the call makes */
} ShmMapAdd;

/*
 * -EINVAL: the key has a value that is no counter. Errors of shm_map_put(). *ret: the sum. Of a key with
 * SHM_CELL_HASH_LATER the call computes the hash where it needs it: not for the key that this thread used last.
 */
#define SHM_CELL_HASH_LATER UINT64_MAX /* should a key have this hash, it is computed each time */
int shm_map_add(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapAdd *add, int64_t *ret);

/*
 * Adds to the counter of which `cell` is the handle, without a look for its key. -ESTALE: it was deleted, or its time
 * is over. -EINVAL: it is no counter of this map.
 */
int shm_map_add_at(ShmActor *actor, const ShmTrie *trie, uint64_t cell, int64_t delta, int64_t *ret);

/* A token bucket, which is full at first. Tokens are counted in the time that they take to come. */
typedef struct ShmMapRate {
        uint64_t burst_ns; /* until an empty bucket is full; at most 2^62 */
        uint64_t cost_ns; /* to be taken; at most burst_ns */
        uint32_t epoch;
} ShmMapRate;

/* 0: taken. 1: there is not as much, and will not be for *ret_wait_ns. Errors and hashes as above. */
int shm_map_limit(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapRate *rate,
                  uint64_t *ret_wait_ns);
