#pragma once
/*
 * Sums over all slabs of an arena that one process keeps, the daemon, so that a count looks only at slabs that may have
 * changed since the last one: see shm/slab/changed.h.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"

typedef struct ShmSlabSum {
        uint64_t slabs; /* in use: neither UNCOMMITTED nor FREE nor BUSY */
        uint64_t taken; /* slots: live objects and slots in caches */
        uint64_t taken_size;
} ShmSlabSum;

/* The sums of an epoch's slabs of one era. Small, since there is one for each era of the low bits in slab words. */
typedef struct ShmEraSum {
        uint32_t slabs, taken;
        uint64_t taken_size;
} ShmEraSum;

typedef struct ShmSlabSums {
        const ShmArena *arena;
        uint32_t *seen; /* by slab: its word as it was counted, see digest_word() */
        ShmEraSum *eras; /* by epoch and the low bits of the era: see shm_slab_sums_era() */
        uint64_t committed, free; /* slabs */
        ShmSlabSum *of; /* by epoch and class: see shm_slab_sums_of() */
        uint32_t renewed; /* up to this group all are counted anew, whether they changed or not */
} ShmSlabSums;

/* Memory of 4 bytes a slab, and 64 KiB an epoch, that takes no pages before slabs are in use. -ENOMEM. */
int shm_slab_sums_init(ShmSlabSums *sums, const ShmArena *arena);
/* Sums of zeros may be deinitialised. */
void shm_slab_sums_deinit(ShmSlabSums *sums);

/*
 * Brings the sums up to date in steps: `budget` as for shm_slab_walk_next(). Several walks may be under way, all in
 * the thread that owns the sums. True: this one is done.
 */
typedef struct ShmSumsWalk {
        uint32_t group; /* to be looked at next */
        uint32_t renew_from, renew_to; /* groups that this walk counts anew in any case */
} ShmSumsWalk;
void shm_slab_sums_begin(ShmSumsWalk *walk, ShmSlabSums *sums);
bool shm_slab_sums_step(ShmSumsWalk *walk, ShmSlabSums *sums, uint32_t *budget);

static inline ShmSlabSum *shm_slab_sums_of(const ShmSlabSums *sums, uint32_t epoch, uint32_t class) {
        return &sums->of[epoch * sums->arena->n_classes + class];
}

/* `era`: the low bits, as in slab words. */
static inline ShmEraSum *shm_slab_sums_era(const ShmSlabSums *sums, uint32_t epoch, uint32_t era) {
        return &sums->eras[epoch * (SLAB_ERA_BITS + 1) + (era & SLAB_ERA_BITS)];
}
