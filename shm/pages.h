#pragma once
/* Pages: committing slabs ahead of use, and giving those of FREE slabs back to the system. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"

#define SHM_COMMIT_RUN_MAX 16 /* slabs a client commits at once */

/*
 * Commits up to n neighbouring slabs, which become FREE. -ENOMEM: the arena is full, or the system
 * has no memory, or the allowance (clients) is used up. Inside an operation.
 */
int shm_pages_commit(ShmActor *actor, uint32_t n, uint32_t *ret_n);

/*
 * Drops the pages of those slabs of one 64-slab group that are in `mask` and FREE, in runs of
 * neighbours. Returns how many it dropped. Control work.
 */
uint32_t shm_pages_drop(ShmActor *control, uint32_t group, uint64_t mask);

/* Drops FREE slabs, highest first, until at most `keep` are left or n_max were dropped. */
uint32_t shm_pages_trim(ShmActor *control, uint32_t keep, uint32_t n_max);

/* Drops pages that stale pointers brought into being under UNCOMMITTED slabs: bytes. Control work. */
uint64_t shm_pages_drop_surplus(ShmActor *control);
/* The same in steps, of up to n slabs; zeros begin it. True: that was all. */
typedef struct ShmSurplus {
        uint32_t position; /* slab to look at next */
        uint64_t size; /* bytes dropped */
} ShmSurplus;
bool shm_pages_drop_surplus_step(ShmActor *control, ShmSurplus *surplus, uint32_t n);

/*
 * After a death: undoes what is BUSY by `holder` among n slabs. Returns how many were. Control work;
 * with holder 0, control's own intent stands already.
 */
uint32_t shm_pages_undo(ShmActor *control, uint32_t holder, uint32_t slab, uint32_t n);
