#pragma once
/*
 * Hints after a death: bits of slab sets that should be set by the slabs' words, and that a dead thread may have left
 * clear.
 */
#include "shm/arena/record.h"

/* Sets the hints that the slab's word wants. */
void shm_hints_repair(const ShmArena *arena, uint32_t slab);
/* Sets the hints of all slabs that a dead thread's intent names. */
void shm_hints_repair_intent(const ShmArena *arena, ShmIntent intent);
