#pragma once
/*
 * The next daemon on an arena, played by the engine itself: it takes over, and goes on until nothing is left to do. It
 * may die on the way, after any of the stores by which it changes the arena: shm is built with SHM_STEP for that.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/maintain/repair.h"

#define SUCCESSOR_NONE UINT32_MAX

typedef struct Successor {
        uint32_t ended; /* client that is no more; SUCCESSOR_NONE: all live */
        uint32_t inside; /* record of a thread that stands still inside an operation; 0: none */
        uint64_t seq; /* that record's, when its thread goes on at last */
        bool repairs; /* runs a check that repairs, besides */
        ShmRepairCounts counts; /* its predecessors' unfinished steps, summed up */
} Successor;

/* Dies after `n_changes` of them; 0: never. Returns how many it made. */
unsigned successor_run(Successor *successor, ShmArena *arena, unsigned n_changes);
