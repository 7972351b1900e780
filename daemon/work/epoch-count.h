#pragma once
/* Counts the live objects of a closed era, of all closed eras of an epoch id, or of a range of eras, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/epoch/epoch.h"
#include "shm/slab/slab-walk.h"

typedef struct EpochCount {
        uint32_t epoch; /* id */
        uint32_t era; /* 0: all closed eras */
        const ShmRevoking *eras; /* if not NULL: these eras alone, closed or not */
        ShmSlabWalk walk;
        uint32_t oldest, newest; /* eras that have live objects; 0: none has */
        uint64_t live_objects;
        uint64_t classes[SHM_CLASSES_MAX];
} EpochCount;

/* `budget` as for shm_slab_walk_next(). True: the count is complete. Begin with zeros, the epoch and the era. */
bool epoch_count_step(EpochCount *count, const ShmArena *arena, uint32_t budget);
