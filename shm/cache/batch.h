#pragma once
/*
 * Several objects in one operation, in the simple cases; shm/cache/object.h serves the others. Each call enters and
 * leaves an operation by itself.
 */
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/actor.h"

/*
 * Does the work of so many calls of shm_object_alloc() without `pending`, with slots that the cache has. Returns the
 * number of objects: less than n if the cache has no more slots, 0 if anything is unusual.
 */
size_t shm_batch_alloc(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handles, size_t n);

/*
 * Does the work of shm_object_free() for the first of the handles. Returns their number: it stops before a stale
 * handle, and where anything else is unusual.
 */
size_t shm_batch_free(ShmActor *actor, const uint64_t *handles, size_t n);

/* Objects that are made together with their bytes, and the words that are to name them. */
typedef struct ShmBatchFill {
        uint64_t *words; /* for handles, one each: in an object that is noted, or that such words lead to */
        uint64_t seal; /* xor this, as ShmPending has it */
        const void *from;
        uint32_t size; /* each object has so many bytes */
} ShmBatchFill;

/* Makes objects in slots that the cache has. Returns their number, which shm_batch_alloc() explains. */
uint32_t shm_batch_fill(ShmActor *actor, uint32_t epoch, const ShmBatchFill *fill, uint32_t n);
