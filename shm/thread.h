#pragma once
/* Threads that ended without a word: by a raw exit, which runs no destructors. Control work. */
#include "shm/client.h"

/*
 * Of a process that lives: marks the records of its threads that are no more DEAD, for repair. How many.
 * None where its threads cannot be seen, or not by the numbers that it knows them by.
 */
uint32_t shm_threads_mark_gone(ShmArena *arena, const ShmClientInfo *client);

/*
 * The same by the process itself, of its own threads, for which it needs no /proc. Of one whose number
 * another of its threads was given since, it is not told.
 */
uint32_t shm_threads_mark_own_gone(ShmArena *arena, uint32_t client);
