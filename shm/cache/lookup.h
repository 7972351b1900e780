#pragma once
/* From a handle to its object. Nothing is written, and no operation needed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/arena.h"

/* -ESTALE. The object is this process's pointer, good for as long as nobody frees the handle. */
int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object, size_t *ret_size);

/* Whether the handle names a live object now. */
bool shm_object_live(const ShmArena *arena, uint64_t handle);

/*
 * Copies [offset, offset + size) of the object out, then looks whether it was still live after the
 * last byte. 0, -ESTALE, -EMSGSIZE (the range is not inside the object).
 */
int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size);
