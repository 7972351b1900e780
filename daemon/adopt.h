#pragma once
/*
 * Taking an arena from a process that uses it, for want of anybody who kept it while there was no daemon.
 *
 * Only from a process of our own user, which has the pool's memfd open and stands in its client table with
 * its start time: the number may be another program's by now, and a name is no proof.
 */
#include <sys/types.h>

#include "shm/arena/arena.h"

/* *ret is mapped, and is the pool's. Logs what is wrong, then -ESRCH, -EPERM, -ENOENT, -ENOTUNIQ, -EBADMSG, ... */
int adopt_arena(ShmArena *ret, const char *pool, pid_t pid);

/*
 * Marks the memory as served, until the descriptor that this returns is closed, or its process ends.
 * -EBUSY: it is marked already, by a daemon in another runtime directory, or by a client that wants no good.
 */
int adopt_lock(const ShmArena *arena);

#define ADOPT_ID_SIZE 33 /* of text */
void adopt_id(const ShmArena *arena, char ret_text[ADOPT_ID_SIZE]);

/* Says so where processes use this arena, which the last daemon had and the new one will not. */
void adopt_hint(const char *pool, const char *arena_id);
