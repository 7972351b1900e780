#pragma once
/* Threads that ended without a word: by a raw exit, which runs no destructors. Control work. */
#include "shm/arena/client.h"

/*
 * Of processes that live: marks records of their threads that are no more DEAD, for repair. How many. It begins at
 * record *position, not 0, looks at no more than `budget` threads, and leaves in *position where to go on: n_records
 * when that was all. None where threads cannot be seen, or not by the numbers that their process knows them by.
 */
uint32_t shm_threads_mark_gone(ShmArena *arena, uint32_t *position, uint32_t budget);

/*
 * The same by the process itself, of its own threads, for which it needs no /proc. Of one whose number
 * another of its threads was given since, it is not told.
 */
uint32_t shm_threads_mark_own_gone(ShmArena *arena, uint32_t client);
