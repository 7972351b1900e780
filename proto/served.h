#pragma once

/*
 * Whether a daemon serves a pool, told without a connection. Where systemd holds the socket of an idle pool, a
 * connection would start its daemon.
 *
 * A daemon has a lock on a file while it lives, and removes the file when it ends in good order. The lock is a shared
 * one, and any user may open the file for reading only: others can neither take it away nor keep a daemon from it. By a
 * lock of their own they can make a pool whose daemon was killed look as if one served it; a connection then tells.
 */

#include <stdbool.h>
#include <sys/types.h>

#define PROTO_SERVED_SUFFIX "run" /* the file is proto_state_file() with this */

typedef enum ProtoServed {
        PROTO_SERVED_UNKNOWN, /* no such files are kept there, or they cannot be looked at: a connection tells */
        PROTO_SERVED_NO, /* no daemon since the last one ended, or since the system was booted */
        PROTO_SERVED_DIED, /* the daemon was killed, and none has followed so far */
        PROTO_SERVED_YES,
} ProtoServed;

/* Returns the descriptor that holds the lock, for as long as this process neither closes it nor ends; or -errno. */
int proto_served_mark(const char *path);

/* The daemon with this mark listens from now on. 0 or -errno. */
int proto_served_listens(int mark_fd);

/* Whether a daemon has marked the pool that has this socket, and does not listen yet. */
bool proto_served_starts(const char *socket_path);

/* By the path of the pool's socket. ret_pid: of the daemon, if PROTO_SERVED_YES; 0: it is not known. */
ProtoServed proto_served(const char *socket_path, pid_t *ret_pid);
