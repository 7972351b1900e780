#pragma once
/* Removing a map: from then on it is absent to all threads, and the maintainer frees its memory. */
#include "shm/map/trie/trie.h"

/*
 * Removes the map that the named root `root` names, if that is `expected`, or, with 0, whatever map it names. -ENOENT:
 * it names no map; -EAGAIN: the root is not `expected`; -EROFS.
 */
int shm_map_remove(ShmActor *actor, const char *root, uint64_t expected);

/* Frees a part of the map that was removed from entry i of the named roots. True: there is nothing left to free. */
bool shm_map_drain_step(ShmActor *control, uint32_t i, uint32_t n);
