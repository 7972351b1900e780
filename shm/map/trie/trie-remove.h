#pragma once
/* Removing a whole trie, with all leaves, while writers may still be in it. */
#include "shm/map/trie/trie.h"

/* From now on each walk from the root ends with -EIDRM. The caller may write; the trie may be removed already. */
void shm_trie_remove(ShmActor *actor, const ShmTrie *trie);

/*
 * Frees leaves and nodes of a trie that was removed, and closes at most n words. True: all is free, the root, too.
 * For the maintainer. It ends, whatever the arena holds.
 */
bool shm_trie_drain_step(ShmActor *control, uint64_t root, uint32_t n);
