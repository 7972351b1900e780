#pragma once
/*
 * Taking an arena from a process that uses it, after a daemon died and systemd kept no descriptor of the arena.
 *
 * The process must belong to the daemon's own user, have the pool's memfd open, and stand in the arena's client
 * table with its start time: its number may be another program's by now, and the name of a memfd proves nothing.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "shm/arena/arena.h"

/*
 * Maps the pool's arena in *ret. Or logs the reason: -ESRCH, -EPERM, -ENOENT, -ENOTUNIQ, -EBADMSG, -EPROTONOSUPPORT
 * (its format is of another build), ...
 */
int adopt_arena(ShmArena *ret, const char *pool, pid_t pid);

#define ADOPT_PIDS_MAX 8

/* Processes that could be adopted from. */
typedef struct AdoptFrom {
        unsigned n;
        pid_t pids[ADOPT_PIDS_MAX]; /* the first of them */
} AdoptFrom;

/*
 * The processes that could be adopted from, of those that have the arena with this id open.
 * *ret_known: this tslabd can adopt the arena; else only one that knows its format can. 0, or a negative errno: that
 * could not be found out.
 */
int adopt_find(const char *pool, const char *arena_id, AdoptFrom *ret_from, bool *ret_known);
