#pragma once
/*
 * What goes over all clients, in slices: those that are gone, and have no record left, are ended, and threads that
 * ended without giving their records back are looked for where these run short.
 */
#include "daemon/peer/client-watch.h"

typedef struct ClientReaper ClientReaper;

int client_reaper_new(ClientReaper **ret_reaper, Clients *clients);
/* NULL-safe, returns NULL. */
ClientReaper *client_reaper_free(ClientReaper *reaper);

/* Records of the dead were repaired. */
void client_reaper_repaired(ClientReaper *reaper);
void client_reaper_tick(ClientReaper *reaper);
