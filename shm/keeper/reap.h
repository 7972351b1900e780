#pragma once
/* Processes that ended: all that they hold goes back, in two parts, with repair in between. For the maintainer. */
#include "shm/arena/client.h"

/*
 * A process has ended, and its entry says so: wakes threads that wait for its claims, marks its records DEAD, and
 * revokes the epochs that it leased. Returns how many records are to be repaired. *ret_leases: how many epochs.
 */
uint32_t shm_reap_process(ShmArena *arena, uint32_t client, uint32_t *ret_leases);

/* Where nobody watches processes: looks at all but `own`. Returns how many have ended, now or before. */
uint32_t shm_reap_gone(ShmArena *arena, uint32_t own);
/* After repair: removes the entries of those that have no records left. Returns how many. */
uint32_t shm_reap_remove(ShmArena *arena);
