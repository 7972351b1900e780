#pragma once
/* Deleting one leaf of a map, whatever key it has, if the map still holds it: for passes over slabs. */
#include "shm/map/leaf/leaf.h"
#include "shm/map/trie/trie.h"

/* shm_map_vacancy() for a word in a bucket. */
uint64_t shm_map_bucket_vacancy(const ShmTrie *trie, const void *key, uint32_t key_size);

/* The word's value after the entry at the cursor was deleted. `key` NULL: it is not known. */
static inline uint64_t shm_map_vacancy(const ShmTrie *trie, const ShmTrieCursor *cursor, const void *key,
                                       uint32_t key_size) {
        return __builtin_expect(shm_trie_in_bucket(trie, cursor), 0)
                       ? shm_map_bucket_vacancy(trie, key, key_size)
                       : 0;
}

/* Moves the cursor to the word that holds the leaf. False: the map does not hold it, or no longer. */
bool shm_map_find_leaf(const ShmTrie *trie, const ShmMapView *view, ShmTrieCursor *ret);

/*
 * To be called before the leaf is unlinked. The leaf of a tag is freed before that: so once a tag is absent, no entry
 * has it. A linked leaf that is stale is no entry.
 */
static inline void shm_map_condemn_tag(ShmActor *actor, const ShmMapView *view) {
        ShmFinal final;

        if (__builtin_expect(!(view->head.flags & SHM_LEAF_TAG), 1))
                return;
        final = shm_map_view_final(actor->arena, view);
        (void) shm_object_finish(actor, view->handle, &final);
}

/*
 * Deletes the leaf at the cursor, and counts that. -ENOENT: the leaf is gone already; SHM_TRIE_E_CHANGED: others
 * changed the word first, each time; -EIDRM, -ENOBUFS.
 */
int shm_map_unlink(ShmActor *actor, const ShmTrie *trie, const ShmMapView *view, ShmTrieCursor *cursor,
                   ShmMapCount count);
