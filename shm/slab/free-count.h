#pragma once
/*
 * Counting the FREE slabs anew. Threads that died after they changed a slab's word, and before n_free, have left n_free
 * wrong.
 */
#include <stdbool.h>

#include "shm/slab/slab-walk.h"

/*
 * In steps, of the slabs in a set, or of all: `budget` as for shm_slab_walk_next(), and true is the last one. `quiet`
 * is false then if threads took slabs meanwhile, so that n_free may be wrong, after shm_free_count_end() corrects it,
 * by as many as they took.
 */
typedef struct ShmFreeCount {
        ShmSlabWalk walk;
        uint64_t taken, before, n;
        bool quiet;
} ShmFreeCount;
void shm_free_count_begin(ShmFreeCount *count, const ShmArena *arena, uint32_t set);
bool shm_free_count_step(ShmFreeCount *count, ShmArena *arena, uint32_t budget);
void shm_free_count_end(const ShmFreeCount *count, ShmArena *arena);

/* At once, and anew while it was not quiet, some times. Returns whether it was. */
bool shm_free_recount(ShmArena *arena);
