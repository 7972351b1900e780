#pragma once
/* Slabs that drained, given back at once and without the engine of shm/maintain/. For the maintainer. */
#include "shm/arena/actor.h"

/* Whether the slab is FREE, of an epoch whose slabs go back as they drain. For any thread. */
bool shm_drained_is_due(const ShmArena *arena, uint32_t slab);
/* Gives that one back, unless others drained meanwhile: then all of them. */
void shm_drained_drop(ShmActor *control, uint32_t slab);
/* Gives all back. */
void shm_drained_walk(ShmActor *control);
