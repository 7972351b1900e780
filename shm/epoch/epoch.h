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

/* The rest is for the maintainer. */

/*
 * After the death of a maintainer: ends an advance that it was in the middle of, and tells all threads of the
 * table as it is.
 */
void shm_epochs_recover(ShmArena *arena);

/*
 * After a walk that found all slabs of the id there are, since no thread was inside an operation that may add one:
 * `floor_era` is the (12-bit) era of the oldest. `n_left`, slabs of eras that are over: the epoch is DRAINED
 * where there are none, and the lease of an epoch that was closed ends.
 */
void shm_epoch_walked(ShmArena *arena, uint32_t id, uint32_t floor_era, uint32_t n_left);
/* Slabs of a closed epoch were met, by whatever walk: it is not DRAINED. */
void shm_epoch_set_not_empty(ShmArena *arena, uint32_t id);

/*
 * Which id advance would open next. -ENOSPC: all others are reserved, leased, yet to be revoked, or hold slabs
 * of an era whose number would come again.
 */
int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id);
/*
 * Stops allocation in an epoch; with `drain` its slabs are to drain too. `number` with era 0 means
 * whichever is newest. 0 also where it was closed already; -EINVAL, -ESTALE (an earlier era, or none yet).
 */
int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain);
/*
 * The same, with `drain`; its objects are to be freed, and with `older` those of all eras before it. Also of an
 * earlier era, where that is named. A death leaves the epoch as it was, or closed and to be revoked. -EBUSY: other
 * earlier eras are being revoked just now.
 */
int shm_epoch_revoke(ShmArena *arena, uint32_t number, bool older);
/* What `revoking` says was freed. What was asked for since stays to be done. */
void shm_epoch_set_revoked(ShmArena *arena, const ShmRevoking *revoking);
/*
 * Opens the next id of the ring in a new era, makes it current, closes the old one to allocation.
 * Before that, close it, and freeze: no cache may hold slots of it any more; and walk (shm/maintain/drain.h).
 */
int shm_epoch_advance(ShmArena *arena, uint32_t *ret_number);
/* Which id can be taken out of the rotation: no slab of it is in use. -ENOSPC: none, for the reasons of advance too. */
int shm_epoch_spare(const ShmArena *arena, uint32_t *ret_id);
/* Opens it in a new era, out of the rotation. Like the next one it is closed, and frozen, before. -EINVAL, -ENOSPC. */
int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number);
/* The same; its objects are to be freed when this client ends. */
int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number);
/* Closes what the client leased, to be revoked. How many. */
uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client);
/* -EINVAL (epoch; label of SHM_LABEL_SIZE bytes or more), -ESTALE. NULL or "" removes it. */
int shm_epoch_label(ShmArena *arena, uint32_t number, const char *label);
