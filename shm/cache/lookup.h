#pragma once
/* From a handle to its object. These calls write nothing, and need no operation. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/arena.h"

/* The address of the object in this process, valid until a thread frees the handle. 0 or -ESTALE. */
int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object, size_t *ret_size);

/* Whether the handle names a live object now. */
bool shm_object_live(const ShmArena *arena, uint64_t handle);

/*
 * Copies the bytes [offset, offset + size) of the object, then checks that the object was live until the
 * last byte was read. 0, -ESTALE, -EMSGSIZE (the range is not inside the object).
 */
int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size);
