#pragma once
/* Pages: committing slabs ahead of use, and giving those of FREE slabs back to the system. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/slab/slab-walk.h"

#define SHM_COMMIT_RUN_MAX 16 /* slabs a client commits at once */
#define SHM_RUN_MAX 256U /* slabs that one intent RUN names */

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

/* Drops FREE slabs, highest first, until at most `keep` are left or n_max were dropped. Control work. */
uint32_t shm_pages_trim(ShmActor *control, uint32_t keep, uint32_t n_max);
/* The same in steps: `budget` as for shm_slab_walk_next(). True: no more than `keep` are left. */
typedef struct ShmTrim {
        ShmSlabWalk count; /* of FREE slabs; then they are dropped */
        uint32_t n_free; /* that are left, as far as is known */
        uint32_t group; /* those below it are to be looked at */
        uint32_t n_dropped;
} ShmTrim;
void shm_pages_trim_begin(ShmTrim *trim, const ShmArena *arena);
bool shm_pages_trim_step(ShmActor *control, ShmTrim *trim, uint32_t keep, uint32_t budget);

/* Drops pages that stale pointers brought into being under UNCOMMITTED slabs: bytes. Control work. */
uint64_t shm_pages_drop_surplus(ShmActor *control);
/* The same in steps; zeros begin it. True: that was all. */
typedef struct ShmSurplus {
        uint32_t position; /* slab to look at next */
        uint64_t size; /* bytes dropped */
} ShmSurplus;
bool shm_pages_drop_surplus_step(ShmActor *control, ShmSurplus *surplus, uint32_t budget);

/*
 * After a death: undoes what is BUSY by `holder` among n slabs. Returns how many were. Control work;
 * with holder 0, control's own intent stands already.
 */
uint32_t shm_pages_undo(ShmActor *control, uint32_t holder, uint32_t slab, uint32_t n);
