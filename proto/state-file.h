#pragma once
/* Files that a daemon keeps for the next daemon of its pool, beside the socket or in a directory of their own. */
#include <stdint.h>

#define PROTO_LOCK_SUFFIX "lock" /* the file that stays: the id of the last daemon's arena */
#define PROTO_ARENA_TEXT_SIZE 33 /* text of 32 digits */
#define PROTO_PID_SIZE 12

/*
 * Where the sockets are in a directory of root's, as under systemd, the daemon's user has the directory `lock` in it
 * for these files: `dir`/lock/`pool`.`suffix`, else `dir`/`pool`.`suffix`. If the sockets were in a directory of that
 * user, it could have systemd, which binds them as root, follow a symbolic link. The caller frees *ret_path. -ENOMEM,
 * or the error for which it cannot be told whether there is such a directory.
 */
int proto_state_file(const char *dir, const char *pool, const char *suffix, char **ret_path);

/* The id of an arena as text. */
void proto_arena_text(const uint64_t id[2], char ret_text[PROTO_ARENA_TEXT_SIZE]);

/*
 * The file has two lines: the daemon's process id, and the id of its arena. "": none is there, or a part only. 0 or
 * -errno.
 */
int proto_lock_read(int fd, char ret_pid[PROTO_PID_SIZE], char ret_arena[PROTO_ARENA_TEXT_SIZE]);
