#pragma once
/* Clients whose process executes another program now, and so does not use the arena any more. */
#include "daemon/peer/client-watch.h"

/* This program of the process attaches: clients that another program of it was are ended. */
void client_exec_end_others(Manager *manager, pid_t pid, uint64_t program);

/* Looks at a few clients without a connection, and ends those whose process does not map the arena. */
void client_exec_tick(Manager *manager);
/* Ends a look that is under way. */
void client_exec_stop(ClientWatch *client);
