#pragma once
/* Opening eras: advance, reserve, lease. For the maintainer. */
#include "shm/epoch/epoch.h"

/*
 * After the death of a maintainer: ends an advance that it was in the middle of, and tells all threads of the
 * table as it is.
 */
void shm_epochs_recover(ShmArena *arena);

/*
 * Which id advance would open next. -ENOSPC: all others are reserved, leased, yet to be revoked, or hold slabs
 * of an era whose number would come again.
 */
int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id);
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
