#pragma once
/* Moving nodes of a trie to slabs that others fill, so that the slabs of an index that shrinks become empty. */
#include "shm/map/trie/trie.h"

/*
 * To be called where a leaf was deleted: moves the cursor's node to another slab, if its own has room for many more
 * nodes and an earlier one has room for this. It takes no memory that is not the index's, and nothing depends on it.
 */
void shm_trie_move(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *cursor);
