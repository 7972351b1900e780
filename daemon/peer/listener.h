#pragma once
/* The socket and the lock of the pool. Accepts connections. */
#include "daemon/peer/session.h"

typedef struct Listener Listener;

/*
 * Takes the lock: a pool has one daemon. *passed_fd is the socket that systemd passed, or -1; listener_start() takes
 * it. Logs its errors. -EBUSY: there is another daemon.
 */
int listener_new(Listener **ret_listener, Sessions *sessions, int *passed_fd);
/* Listens, or takes the socket that systemd passed. Logs its errors. */
int listener_start(Listener *listener);
/* Another listener of the same socket, for a loop of its own, that of `sessions`. `other` has started. */
int listener_share(Listener **ret_listener, const Listener *other, Sessions *sessions);
/* A socket at `path` that only the daemon's user may connect to. 0 or a negative errno. */
int listener_new_private(Listener **ret_listener, Sessions *sessions, const char *path);
/* Nobody connects any more: removes a socket of our own. The locks stay. */
void listener_stop(Listener *listener);
/*
 * Removes what the daemon keeps for the next one, which has no use for it: the memory goes with this daemon. It has to
 * be called before listener_free(), which gives the lock up.
 */
void listener_forget_pool(Listener *listener);
/* NULL-safe, returns NULL. */
Listener *listener_free(Listener *listener);

/* Writes the arena's id into the lock file, for the next daemon, if this one is killed. */
void listener_name_arena(Listener *listener, const char *arena_id);
/* The id of the last daemon's arena, unless systemd keeps arenas; or NULL. */
const char *listener_left_arena(const Listener *listener);
/* Whether systemd, which keeps arenas, had one of an earlier daemon. */
bool listener_had_arena(const Listener *listener);
const char *listener_path(const Listener *listener);
/* Accepts connections again, after a pause because descriptors or memory ran out. */
void listener_tick(Listener *listener);
