#pragma once
/* Threads that ended silently: by a raw exit system call, which runs no destructors. For the maintainer. */
#include "shm/arena/client.h"

/*
 * Marks DEAD, for repair, the records of ended threads in processes that live. Returns how many it marked. It begins
 * at record *position, which is not 0, looks for at most `budget` threads, and sets *position to the record to go on
 * with: n_records after the last. It marks none of a process whose threads it cannot see, or that is in another pid
 * namespace.
 */
uint32_t shm_threads_mark_gone(ShmArena *arena, uint32_t *position, uint32_t budget);

/*
 * As shm_threads_mark_gone() for the threads of the calling process, also without /proc. Then it misses an ended thread
 * whose number the kernel has given to another thread of the process since. With `own_tid`, the calling thread has no
 * record, and all records under its number are those of such threads.
 */
uint32_t shm_threads_mark_own_gone(ShmArena *arena, uint32_t client, uint32_t own_tid);
