#pragma once
/*
 * Objects: allocate, free, resolve.
 *
 * All take the calling thread's actor and enter and leave an operation by themselves, but for the
 * lookups, which write nothing and need none.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/epoch/epoch.h"
#include "shm/arena/record.h"

typedef struct ShmPending {
        uint64_t root;
        uint64_t hash;
} ShmPending;

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

/* The slow ways of shm/cache/cache.c, on the slab words themselves. Inside an operation; errors as above. */
int shm_object_alloc_uncached(ShmActor *actor, uint64_t target, const ShmPending *pending,
                              uint64_t *ret_handle);
int shm_object_free_uncached(ShmActor *actor, uint32_t tag, SlotId id);
/*
 * Up to n slots of one slab, with CLAIM standing. Where more is left the actor holds the slab from then
 * on. `spare`: only where no memory has to be made for it. -ENOMEM.
 */
int shm_object_find_slab(ShmActor *actor, uint64_t target, uint32_t n, bool spare, uint32_t *ret_slab,
                         uint64_t *ret_mask, bool *ret_held);

/* The object is everyone's from now on. -ENOENT: not pending in this thread. */
int shm_object_publish(ShmActor *actor, uint64_t handle);

/* Frees whatever this actor still has pending: a thread ends. */
void shm_object_free_pending(ShmActor *actor);

/* -ESTALE. The object is this process's pointer, good for as long as nobody frees the handle. */
int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object, size_t *ret_size);

/* Whether the handle names a live object now. */
bool shm_object_live(const ShmArena *arena, uint64_t handle);

/*
 * Copies [offset, offset + size) of the object out, then looks whether it was still live after the
 * last byte. 0, -ESTALE, -EMSGSIZE (the range is not inside the object).
 */
int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size);
