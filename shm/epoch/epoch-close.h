#pragma once
/* Closing and revoking eras. For the maintainer. */
#include "shm/epoch/epoch.h"

/* False: there is no such edge. */
bool shm_epoch_change(ShmArena *arena, uint32_t id, ShmEpochEvent event, uint32_t flags);

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
 * After a walk that found all slabs of the id there are, since no thread was inside an operation that may add one:
 * `floor_era` is the (12-bit) era of the oldest. `n_left`, slabs of eras that are over: the epoch is DRAINED
 * where there are none, and the lease of an epoch that was closed ends.
 */
void shm_epoch_walked(ShmArena *arena, uint32_t id, uint32_t floor_era, uint32_t n_left);
/* Slabs of a closed epoch were met, by whatever walk: it is not DRAINED. */
void shm_epoch_set_not_empty(ShmArena *arena, uint32_t id);
