#pragma once
/*
 * Counters and rate limits: entries whose value is one sealed word, which changes in place. The version of such an
 * entry names its cell, and stays while the value changes.
 */
#include "shm/map/entry/map.h"

typedef enum ShmMapAddMode {
        SHM_MAP_ADD, /* -EOVERFLOW if the sum is out of range; nothing is changed then */
        SHM_MAP_ADD_WRAP, /* modulo 2^64 */
        SHM_MAP_ADD_SET, /* `delta` is the value, whatever the counter had */
} ShmMapAddMode;

typedef struct ShmMapAdd {
        int64_t delta;
        int64_t initial; /* the value that an absent key counts as */
        ShmMapAddMode mode;
        uint64_t ttl_ms, epoch; /* as in ShmMapPut, for a counter that the call makes */
} ShmMapAdd;

/*
 * *ret: the sum. If key->hash is SHM_CELL_HASH_LATER, the call computes the hash where it needs it. It does not need it
 * for the key that this thread used last. -EINVAL: the key has a value that is no counter. -EOVERFLOW. Errors of
 * shm_map_put().
 */
#define SHM_CELL_HASH_LATER UINT64_MAX /* should a key have this hash, it is computed each time */
int shm_map_add(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapAdd *add, int64_t *ret);

/*
 * Adds to the counter whose handle is `cell`, without looking up its key. -ESTALE: the counter was deleted, or its time
 * is over. -EINVAL: it is no counter of this map. -EOVERFLOW.
 */
int shm_map_add_at(ShmActor *actor, const ShmTrie *trie, uint64_t cell, int64_t delta, int64_t *ret);

/* A token bucket, which is full at first. Tokens are measured by the time that they take to come. */
typedef struct ShmMapRate {
        uint64_t burst_ns; /* until an empty bucket is full; at most 2^62 */
        uint64_t cost_ns; /* to be taken; at most burst_ns */
        uint32_t epoch;
} ShmMapRate;

/*
 * 0: the tokens were taken. 1: there are too few; if nobody else takes any, there are enough in *ret_wait_ns. Errors
 * and hashes as for shm_map_add().
 */
int shm_map_limit(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapRate *rate,
                  uint64_t *ret_wait_ns);
