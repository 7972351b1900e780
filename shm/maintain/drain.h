#pragma once
/*
 * Draining: the walk that follows the closing of an epoch. For the maintainer, in steps.
 *
 * A walk over the slabs of one id makes those whose era is over DRAINING and gives the pages of
 * empty ones back. It finds none that a thread inside an operation is still to add, nor those whose
 * slots are in caches: the caller freezes (shm/maintain/freeze.h), and walks again when no thread is pending.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/slab/slab-walk.h"

typedef struct ShmDrain {
        uint32_t epoch;
        bool final; /* no thread was pending when it began: it sees all slabs there are */
        ShmSlabWalk slabs; /* of the epoch */
        uint32_t n_left; /* slabs met that hold objects still */
        uint32_t oldest, youngest; /* of their eras, in 12 bits, where there are any */
        uint64_t reclaimed_size;
} ShmDrain;

/*
 * Looks at up to n_max slabs. True: the walk is complete, `n_left` says how many of eras that are
 * over hold objects; after a final one the epoch is DRAINED if none does. Start with zeros, its id, and `final`.
 */
bool shm_drain_step(ShmActor *control, ShmDrain *drain, uint32_t n_max);

/* Whether the walk may have met objects of this era, or, with 0, of any. Only the oldest and the youngest are known. */
bool shm_drain_met(const ShmArena *arena, const ShmDrain *drain, uint32_t era);
