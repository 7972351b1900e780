#pragma once
/* Opening eras: advance, reserve, lease. For the maintainer. */
#include "shm/epoch/epoch.h"

/*
 * After the death of a maintainer: ends the advance in which it died, if any, and publishes the table to all
 * threads.
 */
void shm_epochs_recover(ShmArena *arena);

/*
 * The id that advance would open next. -ENOSPC: every other id is reserved, is leased, is still to be revoked, or has
 * slabs of an old era whose low 12 bits the new era could share.
 */
int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id);
/*
 * Opens the next id of the ring in a new era, makes it current, and closes the old current epoch to allocation.
 * Before the call, the caller closes the next id, freezes, so that no cache has slots of it any more, and walks
 * (shm/maintain/drain.h). -ENOSPC: as shm_epoch_next(); -EINVAL: the arena is damaged.
 */
int shm_epoch_advance(ShmArena *arena, uint32_t *ret_number);
/*
 * An id that can be taken out of the rotation, since no slab of it is in use. -ENOSPC: there is none, perhaps for one
 * of the reasons that stop advance.
 */
int shm_epoch_spare(const ShmArena *arena, uint32_t *ret_id);
/* Opens the id in a new era, out of the rotation. Preparations by the caller as for advance. -EINVAL, -ENOSPC. */
int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number);
/* Reserves the id for one client: the epoch is revoked when that client ends. */
int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number);
/* Closes the epochs that the client leased, to be revoked. Returns how many these are. */
uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client);
/* Sets the label; NULL or "" removes it. -EINVAL (no such id, or a label of SHM_LABEL_SIZE bytes or more), -ESTALE. */
int shm_epoch_label(ShmArena *arena, uint32_t number, const char *label);
