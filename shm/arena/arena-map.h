#pragma once
/* More mappings of an arena in this process. Where a mapping fails: -ENOMEM and what the kernel says. */
#include "shm/arena/arena.h"

/* Another mapping of an arena. It has the descriptors of the first: only one of the two may be deinitialised. */
int shm_arena_map_again(ShmArena *ret, const ShmArena *arena);

/* Puts private memory that reads as zeros in the arena's place: an arena without slabs, which takes what is written. */
int shm_arena_blank(ShmArena *arena);

/* From now on the arena is at `base`, where its like is mapped. */
void shm_arena_move(ShmArena *arena, void *base);
