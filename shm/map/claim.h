#pragma once
/*
 * Claims: of all that miss a key one process computes its value. A claim is a leaf with SHM_LEAF_CLAIM in the place of
 * the entry: to all but these calls the key is absent. It stands until a put takes its place, a delete removes it, its
 * process ends, or its time is over. The leaf's handle is the version by which it is fulfilled (SHM_MAP_REPLACE) or
 * given up (shm_map_delete()): both fail once it is no more.
 *
 * An expired value can be had as a stale one for ShmMapOptions.stale_ms. A claim keeps a copy of it.
 */
#include "shm/map/map.h"

typedef struct ShmMapClaim {
        uint32_t epoch; /* as in ShmMapPut: the claim's */
        uint32_t limit_ms; /* the claim ends then */
        uint64_t gone; /* a claim of a process that the caller knows has ended; 0: none */
        void *buffer; /* for a copy of the stale value */
        uint32_t buffer_size;
} ShmMapClaim;

typedef struct ShmClaimed {
        uint64_t version; /* 0, -EBUSY */
        ShmClaim claim; /* -EBUSY: the other one */
        uint32_t value_size; /* -EMSGSIZE: that of the stale value */
} ShmClaimed;

/*
 * 0: the caller's process has the claim. -EEXIST: the key has a value; -EBUSY: another claim stands; -EMSGSIZE: the
 * buffer is too small; -E2BIG: the key is. Errors of shm_map_put().
 */
int shm_map_claim(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                  ShmClaimed *ret);

/* 1: this version is a claim on the key, and stands; 0: it is not, or no more. -EIDRM. Version 0 stands for any. */
int shm_map_find_claim(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, ShmClaim *ret);

/*
 * The put that fulfils a claim with a value of elsewhere: in the claim's epoch, so that no other gets a value that
 * was asked for before it began; and with a lifetime that counts from the claim, made before anybody asked.
 * `limit_ms` is the claim's. 0; -EAGAIN: there is no such claim, or no more, or the lifetime is over; -EIDRM.
 */
int shm_map_fulfil(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, uint32_t limit_ms,
                   uint32_t ttl_ms, ShmMapPut *ret);

/* As shm_map_get(), also of a stale value: then ret_view->is_over is set. */
ssize_t shm_map_get_stale(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                          ShmMapView *ret_view);
