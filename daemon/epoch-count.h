#pragma once
/* Counts the live objects of what is over of an epoch, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/slab-walk.h"

typedef struct EpochCount {
        uint32_t epoch;
        ShmSlabWalk walk;
        uint64_t live_objects;
        uint64_t classes[SHM_CLASSES_MAX];
} EpochCount;

/* `budget` as for shm_slab_walk_next(). True: that was all. Start with zeros and the epoch. */
bool epoch_count_step(EpochCount *count, const ShmArena *arena, uint32_t budget);
