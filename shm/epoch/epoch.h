#pragma once
/*
 * The epoch table: which lifetimes are open to allocation. Transitions of an epoch's word are in
 * shm/format/epoch-word.h. The maintainer alone changes the table; clients only read it.
 *
 * Closing and revoking concern one era: the one that is named, or the newest. Earlier eras of the id are
 * concerned only where they are named, or all of them with `older`.
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
        bool revoking; /* objects of some era of it are yet to be freed */
        uint32_t owner; /* client index + 1 of who leased it; 0: nobody. May be any number */
        uint64_t opened_usec, closed_usec;
        uint64_t reclaimed_size;
        char label[SHM_LABEL_SIZE];
} ShmEpochInfo;

#define SHM_EPOCH_CURRENT UINT32_MAX

/* The state of an era that is open: allocation's one check. Returns as shm_object_alloc(). */
int shm_epoch_admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era);

ShmEpochWord shm_epoch_load(const ShmArena *arena, uint32_t id);
/* -EINVAL: no such id. */
int shm_epoch_get(const ShmArena *arena, uint32_t id, ShmEpochInfo *ret);
uint32_t shm_epoch_current(const ShmArena *arena); /* API number */
/* Whether slabs of this (12-bit) era of the id are past allocation: they drain. */
bool shm_epoch_over(const ShmArena *arena, uint32_t id, uint32_t slab_era);

/* Eras of an id whose objects are to be freed. Zeros: none. */
typedef struct ShmRevoking {
        uint32_t id;
        uint32_t newest; /* era of the id */
        bool open; /* the newest is: it is not among them */
        uint32_t from; /* from this one to the newest; 0: none of these */
        uint64_t older; /* to 32 | from 32; 0: none */
} ShmRevoking;

/* False: none are. */
bool shm_epoch_revoking(const ShmArena *arena, uint32_t id, ShmRevoking *ret);
/* Whether objects of slabs of this (12-bit) era are to be freed. */
bool shm_revoking_has(const ShmRevoking *revoking, uint32_t slab_era);
