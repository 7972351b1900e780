#pragma once
/* Files that a daemon keeps for the next daemon of its pool, beside the socket or in a directory of their own. */

#define PROTO_LOCK_SUFFIX "lock" /* the file that stays: the id of the last daemon's arena */

/*
 * Where the sockets are in a directory of root's, as under systemd, the daemon's user has the directory `lock` in
 * it for these files: `dir`/lock/`pool`.`suffix`, else `dir`/`pool`.`suffix`. Were the sockets in a directory of
 * that user, it could have systemd, which binds them as root, follow a symbolic link. The caller frees *ret_path.
 * -ENOMEM, or the error for which it cannot be told whether there is such a directory.
 */
int proto_state_file(const char *dir, const char *pool, const char *suffix, char **ret_path);
