#pragma once
/* More mappings of an arena in this process. A mapping that fails returns the errno of the kernel, as -ENOMEM. */
#include "shm/arena/arena.h"

/* Maps an arena once more. Both have the same descriptors, so only one of the two may be deinitialised. */
int shm_arena_map_again(ShmArena *ret, const ShmArena *arena);

/*
 * Replaces the arena's mapping by private memory that reads as zeros: an arena without slabs, into which stray
 * writes do no harm.
 */
int shm_arena_blank(ShmArena *arena);

/* From now on the view of the arena is at `base`, where the caller has mapped the same arena. */
void shm_arena_move(ShmArena *arena, void *base);
