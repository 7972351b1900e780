#pragma once
/* Removing nodes of a trie that are no longer needed. For writers, and for repair. */
#include "shm/map/trie/trie.h"

/*
 * Removes the nodes at the end of the path of `hash` that have fewer than two leaves below them, and ends removals that
 * others began there. -EIDRM, -ENOBUFS (no note is free).
 */
int shm_trie_shrink(ShmActor *actor, const ShmTrie *trie, uint64_t hash);
/*
 * Ends the first removal that others began on the path; its words can be changed after that. *ret_found: there was one.
 * Errors as for shm_trie_shrink().
 */
int shm_trie_help(ShmActor *actor, const ShmTrie *trie, uint64_t hash, bool *ret_found);
/*
 * As shm_trie_shrink() for a path that ends at the cursor, where a leaf was deleted just now. *noted: a freed object of
 * which the actor has a note under this root and hash; 0: none. The call uses that note for the nodes that it
 * removes, so that it needs no other; *noted is then the node that the note names.
 */
int shm_trie_shrink_at(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *cursor, uint64_t *noted);

/*
 * Removes the nodes that shm_trie_shrink_at() left for later: with actor->keeps_path it keeps one path, since the key
 * may be put again.
 */
void shm_trie_settle(ShmActor *actor);
/* Removes the nodes of the kept path alone, for a change that found no free note. False: there is no kept path. */
bool shm_trie_settle_kept(ShmActor *actor);

/* ---- For trie-move.c */

/* A node that is to be removed, or whose removal has begun, and the word above it. */
typedef struct TrieRemoval {
        ShmTrieCursor above;
        uint64_t node; /* as the word above names it */
        uint64_t *words;
        uint32_t n_words;
} TrieRemoval;

#define TRIE_FROZEN_MAX (1U << SHM_TRIE_LOW_BITS_MAX)

/* The values of a node when it was frozen. */
typedef struct TrieFrozen {
        uint64_t *values; /* TRIE_FROZEN_MAX; NULL: they are not asked for */
        uint64_t last; /* one that is not empty */
        uint32_t n; /* how many are not */
} TrieFrozen;

/* Whether such a node is to be removed. */
static inline bool trie_is_needless(const TrieFrozen *frozen) {
        return frozen->n <= 1 && !shm_trie_is_inner(frozen->last);
}

/* Finds the word above the cursor's node, and looks for no removals on the way. False: the node is no longer there. */
bool trie_find_above(const ShmTrie *trie, const ShmTrieCursor *c, TrieRemoval *ret);
/* Sets all but ret->values. The caller guards the node. False: the node has another tag by now. */
bool trie_freeze_words(const ShmTrie *trie, const TrieRemoval *removal, TrieFrozen *ret);
/* As shm_trie_shrink(), with the note of shm_trie_shrink_at(). */
int trie_shrink_path(ShmActor *actor, const ShmTrie *trie, uint64_t hash, uint64_t *noted);
