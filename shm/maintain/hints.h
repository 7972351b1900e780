#pragma once
/* Hints after a death: bits of slab sets that the slabs' words want, and a dead thread may have left unset. */
#include "shm/arena/record.h"

/* The hints that the slab's word wants. */
void shm_hints_repair(const ShmArena *arena, uint32_t slab);
/* Those of all slabs that the intent of a dead thread names. */
void shm_hints_repair_intent(const ShmArena *arena, ShmIntent intent);
