#pragma once

/*
 * Where the sockets of pools are.
 *
 *      root        /run/tslab/NAME.sock
 *      others      $XDG_RUNTIME_DIR/tslab/NAME.sock
 *
 * $TSLAB_RUNTIME_DIR replaces both directories; tests use it, and so does a service that runs as a
 * user of its own and keeps its socket in /run/tslab. The environment is not listened to in
 * programs with raised privileges.
 */

#include <stdbool.h>

#define PROTO_POOL_NAME_MAX 32 /* bytes, without the final 0 */

/* [a-z0-9][a-z0-9_]{0,31} */
bool proto_pool_name_is_valid(const char *name);

/*
 * The directory in which a daemon run by this user keeps its sockets and locks. It is not created.
 * -ENXIO: neither root nor an absolute $XDG_RUNTIME_DIR; -ENOMEM.
 */
int proto_runtime_dir(char **ret_path);

/*
 * The socket of a pool. NULL: $TSLAB_POOL, else "default". With a '/', it is the path itself. A
 * name is looked for in /run/tslab first, then in the directory of this user. The path that is returned
 * need not exist. -EINVAL: not a name; -ENOMEM.
 */
int proto_socket_path(const char *pool_or_path, char **ret_path);
