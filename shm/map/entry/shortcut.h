#pragma once
/*
 * Shortcuts: from the hash of a key to its leaf, without the trie. See shortcut.c.
 */
#include "shm/map/leaf/leaf.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-walk.h"

/* Smaller maps have no shortcuts: all of such a map is near the processor. */
#define SHM_SHORTCUT_MAP_BYTES (UINT64_C(1) << 20)
#define SHM_SHORTCUT_WORDS 4U /* among which a key has its own */
#ifndef SHM_SHORTCUT_GROW_PAGES /* the explorer's cases have fewer */
#define SHM_SHORTCUT_GROW_PAGES 16U /* at most, at a time */
#endif

/* True for one key in 256: its put looks whether the map is large, its delete for pages to be given back. */
static inline bool shm_shortcut_is_turn(uint64_t hash) {
        return hash >> 56 == UINT8_MAX;
}

/* If the map is large, leaves that are made from now on may have shortcuts: they get SHM_LEAF_SHORTCUT. */
void shm_shortcut_begin(ShmActor *actor, const ShmTrie *trie);

/* The handle of a live leaf that is probably the key's; 0: none is known. See look_at_shortcut() in map.c. */
uint64_t shm_shortcut_find(const ShmTrie *trie, uint64_t hash);
/* Fetches the line in which shm_shortcut_find() will look. */
void shm_shortcut_prefetch(const ShmTrie *trie, uint64_t hash);
/*
 * Fetches that line, and the leaf and its tag where a shortcut names one: a writer's walk goes on meanwhile. Returns
 * where the shortcut is, for shm_shortcut_put(); NULL: there is no table yet.
 */
uint64_t *shm_shortcut_prefetch_leaf(const ShmTrie *trie, uint64_t hash);

/* Remembers a leaf with SHM_LEAF_SHORTCUT that was found by the trie, if there is room. */
void shm_shortcut_found(const ShmTrie *trie, uint64_t hash, uint64_t leaf);
/*
 * One that was linked: even if another is forgotten for it, and with more memory for shortcuts if there is none.
 * `line`: from shm_shortcut_prefetch_leaf().
 */
void shm_shortcut_put(ShmActor *actor, const ShmTrie *trie, uint64_t hash, uint64_t leaf, uint64_t *line);

/* Gives pages back if the entries of all maps do not need half of them. It reads the counts of all maps. */
void shm_shortcut_trim(ShmActor *control);
/* An entry was deleted: one call in 256 looks whether there are pages to be given back. */
void shm_shortcut_removed(ShmActor *actor, const ShmTrie *trie, uint64_t hash);
