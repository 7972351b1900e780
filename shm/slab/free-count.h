#pragma once
/*
 * Counting the FREE slabs anew. Threads that died after they changed a slab's word, and before n_free, have left n_free
 * wrong.
 */
#include <stdbool.h>

#include "shm/arena/arena.h"

/* For the maintainer. False: threads took slabs all the while, and n_free may be wrong by as many as they took. */
bool shm_free_recount(ShmArena *arena);
