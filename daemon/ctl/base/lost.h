#pragma once

/* A pool that cannot be reached: processes that go on with its memory, or a daemon that lost its directory. */

#include <sys/types.h>

/*
 * A process of the last daemon's user that has the memory of this pool open while no tslabd has; 0: none that this
 * user may look at. Pools of other runtime directories may have the same name. `arena_id`: of this pool's last arena;
 * "": not known.
 */
pid_t lost_client_find(const char *pool, const char *arena_id);

/* The daemon that systemd runs for this pool of /run/tslab, though its marks there are gone; 0: none. */
pid_t lost_daemon_find(const char *pool);
