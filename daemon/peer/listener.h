#pragma once
/* The socket and the lock of the pool, and whom it lets in. */
#include "daemon/passed.h"
#include "daemon/peer/session.h"

typedef struct Listener Listener;

/*
 * Takes the lock: one daemon a pool. Logs what goes wrong. -EBUSY: there is another one.
 */
int listener_new(Listener **ret_listener, Sessions *sessions, Passed *passed);
/* Listens, or takes up the socket that systemd passed. Logs what goes wrong. */
int listener_start(Listener *listener);
/* Removes a socket of our own. NULL-safe, returns NULL. */
Listener *listener_free(Listener *listener);

/* So that the next daemon knows what this one had, should it not end in order. */
void listener_name_arena(Listener *listener, const char *arena_id);
/* That of the last daemon, if it did not end in order, and nobody kept what it had; or NULL. */
const char *listener_left_arena(const Listener *listener);
const char *listener_path(const Listener *listener);
/* Accepts again, if it could not for want of descriptors. */
void listener_tick(Listener *listener);
