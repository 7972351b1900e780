#pragma once
/* Named roots: 64 names, each the handle of an object, found by every process of the pool. */
#include <stdint.h>

#include "shm/arena/arena.h"

/* 0; -ENOENT: absent; -EINVAL: the name is empty or longer than SHM_ROOT_NAME_SIZE - 1. */
int shm_root_get(const ShmArena *arena, const char *name, uint64_t *ret_handle);
/*
 * Compare-and-set; 0 stands for absent. -EAGAIN: it was not `expected`; -ENOSPC: 64 names have been
 * used (a name is taken for good by its first set); -EINVAL; -EROFS.
 */
int shm_root_set(ShmArena *arena, const char *name, uint64_t expected, uint64_t handle);
/* Root i, for listings: 0, or -ENOENT where none is set. The name is of SHM_ROOT_NAME_SIZE, terminated. */
int shm_root_at(const ShmArena *arena, uint32_t i, char *ret_name, uint64_t *ret_handle);

/* The pool's keyed hash (SipHash-2-4) of some bytes; never 0. */
uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size);
