#pragma once
/* Taking an entry: it is deleted, and its last value returned. */
#include "shm/map/map.h"

/*
 * Deletes a key, and copies out the value that it had; of several that take a value, one gets it. All changes of a
 * counter are in that value, or are of another one. -ENOENT, -EMSGSIZE (nothing was done; ret_view tells the size),
 * -EIDRM, -EUCLEAN, -ENOBUFS, -EROFS. The bytes of ret_view are not to be used.
 */
ssize_t shm_map_take(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                     ShmMapView *ret_view);
