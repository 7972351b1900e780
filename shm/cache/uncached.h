#pragma once
/* Allocating and freeing on the slab words themselves, past the caches. Inside an operation. */
#include <stdint.h>

#include "shm/arena/record.h"

/* The root and hash with which an object is noted: see shm_object_alloc(). */
typedef struct ShmPending {
        uint64_t root;
        uint64_t hash;
} ShmPending;

/* Allocates an object of this class, epoch and era. -ENOMEM, -ENOBUFS (no note left). */
int shm_uncached_alloc(ShmActor *actor, uint64_t key, const ShmPending *pending, uint64_t *ret_handle);
/* -ESTALE, -EUCLEAN: as shm_object_free(). */
int shm_uncached_free(ShmActor *actor, uint32_t tag, SlotId id);
