#pragma once
/* Removing nodes of a trie that are no longer needed. For writers, and for repair. */
#include "shm/map/trie.h"

/*
 * Removes the nodes at the end of the path of `hash` that have less than two leaves below them, and ends removals
 * that others began there. -EIDRM, -ENOBUFS (no note left).
 */
int shm_trie_shrink(ShmActor *actor, const ShmTrie *trie, uint64_t hash);
/*
 * Ends the first removal that others began on the path: its words can be changed then. *ret_found: there was
 * one. Errors as above.
 */
int shm_trie_help(ShmActor *actor, const ShmTrie *trie, uint64_t hash, bool *ret_found);
/*
 * As shm_trie_shrink(), for a path that ends at the cursor, where a leaf was deleted just now. *noted: an object that
 * is freed, and that the actor has a note of under this root and hash; 0: none. The note serves for nodes, so that no
 * other is needed: *noted is then the node that it is of.
 */
int shm_trie_shrink_at(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *cursor, uint64_t *noted);

/* Removes what shm_trie_shrink_at() left for later: with actor->keeps_path it keeps one path, in the hope of a put. */
void shm_trie_settle(ShmActor *actor);
/* The same of the kept path alone, for a change that found no note left. False: there is none. */
bool shm_trie_settle_kept(ShmActor *actor);
