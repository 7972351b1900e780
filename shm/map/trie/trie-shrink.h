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
