#pragma once
/*
 * Claims: of all processes that miss a key, one computes its value. A claim is a leaf with SHM_LEAF_CLAIM in the place
 * of the entry; for all calls but these the key is absent. A claim stands until a put replaces it, a delete removes it,
 * its process ends, or its time is over. The leaf's handle is the claim's version. By it the claim is fulfilled
 * (SHM_MAP_REPLACE) or given up (shm_map_give_up()); both fail once the claim is no more.
 *
 * An expired value can be had as a stale one for ShmMapOptions.stale_ms. A claim keeps a copy of it, which stays when
 * the claim is given up.
 */
#include "shm/map/entry/map.h"

typedef struct ShmMapClaim {
        uint32_t epoch; /* as in ShmMapPut: the claim's */
        uint32_t limit_ms; /* the claim ends then */
        uint32_t thread; /* the caller's, as in ShmClaim */
        uint64_t
                gone; /* a claim that is given up, or of a process that the caller knows has ended; 0: none */
        void *buffer; /* for a copy of the stale value */
        uint32_t buffer_size;
        bool extends; /* `gone` is the caller's own claim, and another one with a new limit takes its place */
} ShmMapClaim;

typedef struct ShmClaimed {
        uint64_t version; /* after 0: of the caller's claim; after -EBUSY: of the other one */
        ShmClaim claim; /* after -EBUSY: the other one */
        uint32_t value_size; /* after -EMSGSIZE: that of the stale value */
} ShmClaimed;

/*
 * 0: the caller's process has the claim. -EEXIST: the key has a value; -EBUSY: another claim stands; -ENOENT: the claim
 * that it is to extend is no more; -EMSGSIZE: the buffer is too small for the stale value; -E2BIG: the key is too
 * large. Errors of shm_map_put().
 */
int shm_map_claim(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                  ShmClaimed *ret);

/*
 * Deletes as shm_map_delete() does, if the key's value or claim has the version `gone`. If that is a claim, its stale
 * value stays; without memory for that it goes, too. -EMSGSIZE: the buffer is too small for the stale value.
 */
int shm_map_give_up(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapClaim *claim,
                    ShmClaimed *ret);

/* 1: this version is a claim on the key, and stands; 0: it is not, or no longer. -EIDRM. Version 0 means any claim. */
int shm_map_find_claim(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, ShmClaim *ret);

/*
 * Prepares the put that fulfils a claim with a value from outside of the pool. The value goes into the claim's epoch,
 * so that a later epoch has no value that was asked for before it began. Its lifetime counts from the claim, which was
 * made before anybody asked for the value. `limit_ms`: as it was given to the claim. 0; -EAGAIN: there is no such
 * claim, or no longer, or the lifetime is over; -EIDRM.
 */
int shm_map_fulfil(const ShmTrie *trie, const ShmMapKey *key, uint64_t version, uint32_t limit_ms,
                   uint64_t ttl_ms, ShmMapPut *ret);

/* As shm_map_look() and shm_map_get(), also of a stale value: then ret_view->is_over is set. */
int shm_map_look_stale(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *ret_view);
ssize_t shm_map_get_stale(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                          ShmMapView *ret_view);
