#pragma once
/*
 * Objects: allocating, freeing, publishing; for lookups see shm/cache/lookup.h.
 *
 * Each call takes the calling thread's actor, and enters and leaves an operation by itself.
 */
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/cache/lookup.h"
#include "shm/cache/uncached.h"
#include "shm/epoch/epoch.h"

/*
 * Allocates an object of `size` bytes in an epoch (id | era << 8, with era 0 for the era that is open, or
 * SHM_EPOCH_CURRENT). Its bytes are not zeroed.
 *
 * With `pending` the thread notes the object first: if the thread dies, repair frees the object, unless it was
 * published by shm_object_publish() or, if `root` is not 0, the trie of that root has it under `hash`. With `link` see
 * ShmPending.
 *
 * -EINVAL (size 0, epoch out of range), -E2BIG, -ENOMEM, -ESHUTDOWN (epoch closed), -ESTALE (era
 * over), -EROFS, -ENOBUFS (no note left).
 */
int shm_object_alloc(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                     uint64_t *ret_handle, void **ret_object);

/* -ESTALE: the handle has no live object. -EUCLEAN: the slab's word contradicts the tag; the arena is damaged. */
int shm_object_free(ShmActor *actor, uint64_t handle);

/* shm_object_free() of an object with words that threads change in place. */
int shm_object_finish(ShmActor *actor, uint64_t handle, ShmFinal *final);

/* The object now belongs to the pool: it stays when this thread dies. -ENOENT: it is not pending in this thread. */
int shm_object_publish(ShmActor *actor, uint64_t handle);
