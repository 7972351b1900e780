#pragma once
/* Clients that executed another program, and so do not use the arena any more. */
#include "daemon/peer/client-watch.h"

/* `program` of the process attaches: ends the clients that an earlier program of the process left. */
void client_exec_end_others(Clients *clients, const Identity *identity, uint64_t program);

/* Scans the maps of a few clients without a connection, and ends the clients that do not map the arena. */
void client_exec_tick(Clients *clients);
