#pragma once
/* Closing and revoking eras. For the maintainer. */
#include "shm/epoch/epoch.h"

/* Takes one edge of the epoch's word. False: there is no such edge. */
bool shm_epoch_change(ShmArena *arena, uint32_t id, ShmEpochEvent event, uint32_t flags);

/*
 * Stops allocation in an epoch; with `drain` its slabs are to drain too. `number` with era 0 means the newest era.
 * 0, also if the epoch was closed already; -EINVAL; -ESTALE (an earlier era, or an era that does not exist yet).
 */
int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain);
/*
 * The eras whose objects shm_epoch_revoke() would free, for shm_revoking_has(); nothing is written. -EINVAL, -ESTALE.
 */
int shm_epoch_to_revoke(const ShmArena *arena, uint32_t number, bool older, ShmRevoking *ret);
/*
 * Closes the epoch with `drain`, and stores that the objects of the era are to be freed; with `older` the objects of
 * all eras before it too. `number` may name an earlier era, which is over: then only its objects are concerned. After
 * a death the epoch is unchanged, or closed and to be revoked. -EBUSY: a revocation of other earlier eras is going on.
 */
int shm_epoch_revoke(ShmArena *arena, uint32_t number, bool older);
/* The objects of the eras in `revoking` were freed. Eras that were added to the request since stay to be revoked. */
void shm_epoch_set_revoked(ShmArena *arena, const ShmRevoking *revoking);

/*
 * To be called after a walk that found every slab of the id, since no thread was inside an operation that could add
 * one. `floor_era` is the (12-bit) era of the oldest slab, `n_left` the number of slabs whose era is over. If n_left
 * is 0, the epoch becomes DRAINED, and the lease of an epoch that is closed ends.
 */
void shm_epoch_walked(ShmArena *arena, uint32_t id, uint32_t floor_era, uint32_t n_left);
/* Some walk met slabs of a closed epoch: it is not DRAINED. */
void shm_epoch_set_not_empty(ShmArena *arena, uint32_t id);
