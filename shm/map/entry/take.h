#pragma once
/* Taking an entry: it is deleted, and its last value returned. */
#include "shm/map/entry/map.h"

/*
 * Deletes a key, and copies out the value that it had. Of several threads that take one value, one gets it. If the
 * value is a counter's, it includes every change that was ever done to that counter. -ENOENT, -EMSGSIZE (nothing was
 * done; ret_view has the size), -EIDRM, -EUCLEAN, -ENOBUFS, -EROFS. Do not use the bytes of ret_view.
 */
ssize_t shm_map_take(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                     ShmMapView *ret_view);
