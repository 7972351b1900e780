#pragma once
/* Named roots: up to 64 names, each with the handle of an object. Every process of the pool finds them. */
#include <stdint.h>

#include "shm/arena/arena.h"

/* 0; -ENOENT: absent; -EINVAL: the name is empty or longer than SHM_ROOT_NAME_SIZE - 1. */
int shm_root_get(const ShmArena *arena, const char *name, uint64_t *ret_handle);
/*
 * Compare-and-set of the root's handle; 0 means absent. -EAGAIN: it was not `expected`; -ENOSPC: 64 names were
 * used (the first set of a name takes an entry for good); -EINVAL; -EROFS.
 */
int shm_root_set(ShmArena *arena, const char *name, uint64_t expected, uint64_t handle);
/* The entry that the name has taken, whether or not it is set; -ENOENT, -EINVAL. */
int shm_root_index(const ShmArena *arena, const char *name);
/* Root i, for listings. -ENOENT: it is not set. ret_name has room for SHM_ROOT_NAME_SIZE bytes; it is terminated. */
int shm_root_at(const ShmArena *arena, uint32_t i, char *ret_name, uint64_t *ret_handle);

/* The pool's keyed hash (SipHash-2-4) of some bytes; never 0. */
uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size);
