#pragma once
/* Named roots: up to SHM_ROOTS_MAX names, each with the handle of an object. Every process of the pool finds them. */
#include <stdint.h>

#include "shm/arena/arena.h"

/* 0; -ENOENT: absent; -EINVAL: the name is empty or longer than SHM_ROOT_NAME_SIZE - 1. */
int shm_root_get(const ShmArena *arena, const char *name, uint64_t *ret_handle);
/*
 * Compare-and-set of the root's handle; 0 means absent. -EAGAIN: it was not `expected`; -ENOSPC: all entries have
 * names; -EINVAL; -EROFS.
 */
int shm_root_set(ShmArena *arena, const char *name, uint64_t expected, uint64_t handle);
/* The index of the name's entry; -ENOENT, -EINVAL. It is the name's until that is set to 0, or removed. */
int shm_root_index(const ShmArena *arena, const char *name);
/* Root i, for listings. -ENOENT: it is not set. ret_name has room for SHM_ROOT_NAME_SIZE bytes; it is terminated. */
int shm_root_at(const ShmArena *arena, uint32_t i, char *ret_name, uint64_t *ret_handle);
/* The handle of root i; 0: it is not set. */
uint64_t shm_root_of(const ShmArena *arena, uint32_t i);
/* Whether entry i of the table was ever used, or one behind it; false for SHM_ROOTS_MAX. */
bool shm_root_was_used(const ShmArena *arena, uint32_t i);
/* How many names have room beside those that are set. */
uint32_t shm_root_n_free(const ShmArena *arena);

/* To set a name that is absent, in two steps: the entry is known before others find the name. */
typedef struct ShmRootProposal {
        uint64_t hash, handle;
        uint32_t i; /* the entry's index */
} ShmRootProposal;
enum {
        _SHM_ROOT_E_SUCCESS,
        SHM_ROOT_E_WITHDRAWN, /* by a thread that proposes the same name, or needs the entry: begin again */
};
/* -EAGAIN: the name is set; -ENOSPC, -EINVAL, -EROFS. Then confirm it. */
int shm_root_propose(ShmArena *arena, const char *name, uint64_t handle, ShmRootProposal *ret);
/* 0; SHM_ROOT_E_WITHDRAWN; -EAGAIN: another thread has set the name. */
int shm_root_confirm(ShmArena *arena, const ShmRootProposal *proposal);

/* Frees the name, and keeps the handle in its entry until shm_root_removed(). -EAGAIN: the root is not `expected`. */
int shm_root_remove(ShmArena *arena, const char *name, uint64_t expected);
/* The handle that was removed, and is still in entry i; 0: none. */
uint64_t shm_root_removal(const ShmArena *arena, uint32_t i);
void shm_root_removed(ShmArena *arena, uint32_t i, uint64_t handle);

/* Whether an entry has an object that a dead thread had made for a name. A proposal of that object is withdrawn. */
bool shm_root_names(ShmArena *arena, uint64_t handle);

/* The pool's keyed hash (SipHash-2-4) of some bytes; never 0. */
uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size);
