#pragma once
/*
 * Draining: the walk that follows the closing of an epoch. For the maintainer, in steps.
 *
 * A walk over the slabs of one id makes slabs of eras that are over DRAINING, and gives the pages of empty slabs back.
 * It misses slabs that a thread inside an operation is about to add, and a slab stays while slots of it are in caches.
 * So the caller freezes first (shm/maintain/freeze.h), and walks again when no thread is pending.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/slab/pages.h"
#include "shm/slab/slab-walk.h"

typedef struct ShmDrain {
        uint32_t epoch;
        bool final; /* no thread was pending when it began: it sees all slabs there are */
        ShmSlabWalk slabs; /* the walk over the epoch's slabs */
        uint32_t n_left; /* slabs met that hold objects still */
        uint32_t oldest, youngest; /* eras of these slabs, 12 bits; set if n_left > 0 */
        uint64_t reclaimed_size;
        ShmSplits splits;
} ShmDrain;

/*
 * Looks at up to n_max slabs. True: the walk is complete, and `n_left` counts the slabs of eras that are over and hold
 * objects. After a final walk that left none the epoch is DRAINED. Begin with zeros, the epoch's id, and `final`.
 */
bool shm_drain_step(ShmActor *control, ShmDrain *drain, uint32_t n_max);

/*
 * Whether the walk may have met objects of this era, or with 0 of any era. It knows only the oldest and the youngest.
 */
bool shm_drain_met(const ShmArena *arena, const ShmDrain *drain, uint32_t era);
