#pragma once
/*
 * The epoch table says which epochs are open to allocation. Transitions of an epoch's word are in
 * shm/format/epoch-word.h. Only the maintainer changes the table; clients read it.
 *
 * Closing and revoking concern one era: the era that is named or, with era 0, the newest of the id. Revoking with
 * `older` also concerns all earlier eras of the id.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"
#include "shm/format/epoch-word.h"

typedef struct ShmEpochInfo {
        uint32_t id;
        ShmEpochState state;
        uint32_t flags;
        uint32_t era;
        bool current;
        bool revoking; /* objects of one or more of its eras are still to be freed */
        uint32_t owner; /* index + 1 of the client that leases it; 0: none. Not checked: may be any number */
        uint64_t opened_usec, closed_usec;
        uint64_t reclaimed_size;
        char label[SHM_LABEL_SIZE];
} ShmEpochInfo;

#define SHM_EPOCH_CURRENT UINT32_MAX

/* Whether an allocation in this epoch may go on: 0 with its id and era, or an error of shm_object_alloc(). */
int shm_epoch_admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era);

ShmEpochWord shm_epoch_load(const ShmArena *arena, uint32_t id);
/* -EINVAL: no such id. */
int shm_epoch_get(const ShmArena *arena, uint32_t id, ShmEpochInfo *ret);
uint32_t shm_epoch_current(const ShmArena *arena); /* API number */
/* Whether this (12-bit) era of the id is closed to allocation: its slabs drain. */
bool shm_epoch_over(const ShmArena *arena, uint32_t id, uint32_t slab_era);

/* Whether its last walk found no slab of it, nor can there be one: nothing is to be drained before its next era. */
static inline bool shm_epoch_is_drained(const ShmArena *arena, uint32_t id) {
        return shm_epoch_load(arena, id).state == SHM_EPOCH_DRAINED;
}

/* The eras of an id that are to be revoked. Zeros: none. */
typedef struct ShmRevoking {
        uint32_t id;
        uint32_t newest; /* newest era of the id */
        bool open; /* the newest era is open, and so not to be revoked */
        uint32_t from; /* the eras from this one to the newest are to be revoked; 0: none of these */
        uint64_t older; /* a range of earlier eras to be revoked, to 32 | from 32; 0: none */
} ShmRevoking;

/* Reads which eras of the id are to be revoked. False: none. */
bool shm_epoch_revoking(const ShmArena *arena, uint32_t id, ShmRevoking *ret);
/* Whether objects of slabs of this (12-bit) era are to be freed. */
bool shm_revoking_has(const ShmRevoking *revoking, uint32_t slab_era);
