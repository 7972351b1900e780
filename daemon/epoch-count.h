#pragma once
/* Counts the live objects of what is over of an epoch, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"

typedef struct EpochCount {
        uint32_t epoch;
        uint32_t position; /* slab to look at next */
        uint64_t live_objects;
        uint64_t classes[SHM_CLASSES_MAX];
} EpochCount;

/* Looks at up to n_max slabs; true: that was all. Start with zeros and the epoch. */
bool epoch_count_step(EpochCount *count, const ShmArena *arena, uint32_t n_max);
