#pragma once
/*
 * Passes over all clients, in slices. Removes the clients that are dead or have left and have no record any more. If
 * records run short, also searches for threads that ended without giving their records back.
 */
#include "daemon/peer/client-watch.h"

typedef struct ClientReaper ClientReaper;

int client_reaper_new(ClientReaper **ret_reaper, Clients *clients);
/* NULL-safe, returns NULL. */
ClientReaper *client_reaper_free(ClientReaper *reaper);

/* Records of dead threads were repaired: removes the clients that waited for that. */
void client_reaper_repaired(ClientReaper *reaper);
void client_reaper_tick(ClientReaper *reaper);
