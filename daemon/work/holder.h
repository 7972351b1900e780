#pragma once
/*
 * Finds the process that keeps the lock of the arena's file by a write to that file that does not end. The kernel does
 * not tell, so this is a guess from /proc: exact for processes into which this one may look, which are all for root.
 */
#include <stdbool.h>
#include <stddef.h>

#include "shm/arena/arena.h"

#define HOLDER_TEXT_SIZE 160

/* A sentence without its full stop. May take some milliseconds for each hundred processes. */
void holder_describe(const ShmArena *arena, char ret[HOLDER_TEXT_SIZE]);
/*
 * Whether this process can have the lock, within a second. If not, a thread is left that waits for it, and the log has
 * `trouble`, which tells what waits for the lock, and the process.
 */
bool holder_leaves_lock(const ShmArena *arena, const char *trouble);
