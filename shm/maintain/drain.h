#pragma once
/*
 * Draining: what follows the closing of an epoch. Control work, in slices.
 *
 * A walk over the slabs of one id makes those whose era is over DRAINING and gives the pages of
 * empty ones back. It finds none that a thread inside an operation is still to add, nor those whose
 * slots are in caches: the caller freezes (shm/maintain/freeze.h), and walks again when no thread is pending.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/maintain/freeze.h"
#include "shm/record.h"

typedef struct ShmDrain {
        uint32_t epoch;
        uint32_t position; /* slab to look at next */
        uint32_t n_left; /* slabs met that hold objects still */
        uint64_t reclaimed_size;
} ShmDrain;

/*
 * Looks at up to n_max slabs. True: the walk is complete, `n_left` says how many of eras that are
 * over hold objects, the epoch is DRAINED if none does. Start with a ShmDrain of zeros and its id.
 */
bool shm_drain_step(ShmActor *control, ShmDrain *drain, uint32_t n_max);
