#pragma once
/*
 * The epoch table.
 *
 * An epoch's word:  state 8 | flags 8 | era 24 | version 24
 *
 *     edge                who                   by
 *     OPEN    -> CLOSING  control               shm_epoch_close(), shm_epoch_advance()
 *     CLOSING -> DRAINED  control               shm_drain_step() that found no slab of it left
 *     DRAINED -> CLOSING  control               shm_drain_step() that found one after all
 *     CLOSING | DRAINED -> OPEN, era + 1        shm_epoch_advance(), shm_epoch_reserve()
 *
 * Control is the daemon, or in a private pool the holder of the control lock. Clients only read.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"

typedef enum ShmEpochState {
        SHM_EPOCH_UNUSED,
        SHM_EPOCH_OPEN,
        SHM_EPOCH_CLOSING, /* no allocation; objects of it may live on */
        SHM_EPOCH_DRAINED, /* closed, and no slab is left of it */
} ShmEpochState;

#define SHM_EPOCH_RESERVED 1 /* taken out of the rotation */
#define SHM_EPOCH_DRAIN 2 /* close was asked for: its slabs drain and go back */
#define SHM_EPOCH_REVOKE                                                                                     \
        4 /* and its objects are to be freed: a sweep is not over yet (shm/maintain/revoke.h) */

typedef struct ShmEpochInfo {
        uint32_t id;
        ShmEpochState state;
        uint32_t flags;
        uint32_t era;
        bool current;
        uint32_t owner; /* client index + 1 of who leased it; 0: nobody. May be any number */
        uint64_t opened_usec, closed_usec;
        uint64_t reclaimed_size;
        char label[SHM_LABEL_SIZE];
} ShmEpochInfo;

#define SHM_EPOCH_CURRENT UINT32_MAX

/* API numbers: id | era << 8. */
static inline uint32_t shm_epoch_number(uint32_t id, uint32_t era) {
        return id | era << 8;
}

/* The state of an era that is open: allocation's one check. Returns as shm_object_alloc(). */
int shm_epoch_admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era);

/* -EINVAL: no such id. */
int shm_epoch_get(const ShmArena *arena, uint32_t id, ShmEpochInfo *ret);
uint32_t shm_epoch_current(const ShmArena *arena); /* API number */
/* Whether slabs of this (12-bit) era of the id are past allocation: they drain. */
bool shm_epoch_over(const ShmArena *arena, uint32_t id, uint32_t slab_era);

/* The rest is control work. */

/* All open, in era 1, the first one current. */
void shm_epochs_init(ShmHeader *header, uint64_t usec);
/* DRAINED or CLOSING, where it is not open. */
void shm_epoch_set_drained(ShmArena *arena, uint32_t id, bool drained);
/* Which id advance would open next: one that is to be swept only where all are. -ENOSPC: all others are reserved. */
int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id);
/*
 * Stops allocation in an epoch; with `drain` its slabs are to drain too. `number` with era 0 means
 * whichever there is. 0 also where it was closed already; -EINVAL, -ESTALE (era over).
 */
int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain);
/* The same, with `drain`; its objects are to be freed. A death leaves it neither way, or closed and to be swept. */
int shm_epoch_revoke(ShmArena *arena, uint32_t number);
/*
 * Opens the next id of the ring in a new era, makes it current, closes the old one to allocation.
 * Before that, close it, and freeze: no cache may hold slots of it any more; and walk (shm/maintain/drain.h).
 */
int shm_epoch_advance(ShmArena *arena, uint32_t *ret_number);
/* Which id can be taken out of the rotation: no slab of it is in use, nor is it to be swept. -ENOSPC: none. */
int shm_epoch_spare(const ShmArena *arena, uint32_t *ret_id);
/* Opens it in a new era, out of the rotation. Like the next one it is closed, and frozen, before. -EINVAL. */
int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number);
/* The same; its objects are to be freed when this client ends. */
int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number);
/* Closes what the client leased, for the caller to revoke: those with SHM_EPOCH_REVOKE. How many. */
uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client);
/* A sweep is to be, or was finished. Nothing where the epoch is open, or in another era. */
void shm_epoch_set_revoking(ShmArena *arena, uint32_t number, bool revoking);
/* -EINVAL (epoch; label of SHM_LABEL_SIZE bytes or more), -ESTALE. NULL or "" removes it. */
int shm_epoch_label(ShmArena *arena, uint32_t number, const char *label);
