#pragma once

/* Processes that go on with the memory of a pool whose daemon has ended: the next daemon can take it from them. */

#include <sys/types.h>

/*
 * A process of the last daemon's user that has the memory of this pool open while no tslabd has; 0: none that this
 * user may look at. Pools of other runtime directories may have the same name. `arena_id`: of this pool's last arena;
 * "": not known.
 */
pid_t lost_client_find(const char *pool, const char *arena_id);
