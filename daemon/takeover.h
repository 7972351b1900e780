#pragma once
/*
 * Taking up an arena in which an earlier daemon of this pool left clients, freezes and epochs that
 * drain.
 */
#include "daemon/manager.h"

/*
 * The arena that was kept, if it can be used; else it is removed from the store, and *ret_taken is
 * false. Logs why. `fd` is taken in any case.
 */
int takeover_arena(Manager *manager, int fd, bool *ret_taken);
/* The arena of a process that uses it. Logs why not. */
int takeover_adopt(Manager *manager, pid_t pid);
/* Clients, and what was under way. All parts are there, nobody is let in yet. */
int takeover_resume(Manager *manager);

/* An arena other than the options say is kept: says what differs. */
void takeover_compare(const ShmArena *arena, const Options *options);
