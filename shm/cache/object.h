#pragma once
/*
 * Objects: allocate, free, publish; shm/cache/lookup.h looks them up.
 *
 * All take the calling thread's actor, and enter and leave an operation by themselves.
 */
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/cache/lookup.h"
#include "shm/cache/uncached.h"
#include "shm/epoch/epoch.h"

/*
 * An object of `size` bytes in an epoch (id | era << 8, era 0 = whichever is open, or
 * SHM_EPOCH_CURRENT). Not zeroed.
 *
 * With `pending` it is noted first: ours to take back until shm_object_publish(), or, where
 * `root` is not 0, for as long as the trie of that root does not hold it under `hash`.
 *
 * -EINVAL (size 0, epoch out of range), -E2BIG, -ENOMEM, -ESHUTDOWN (epoch closed), -ESTALE (era
 * over), -EROFS, -ENOBUFS (no note left).
 */
int shm_object_alloc(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                     uint64_t *ret_handle, void **ret_object);

/* -ESTALE: it names no live object. -EUCLEAN: its slab's word contradicts its tag; the arena is damaged. */
int shm_object_free(ShmActor *actor, uint64_t handle);

/* The object is everyone's from now on. -ENOENT: not pending in this thread. */
int shm_object_publish(ShmActor *actor, uint64_t handle);
