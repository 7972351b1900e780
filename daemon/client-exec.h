#pragma once
/* Clients whose process executes another program now, and so does not use the arena any more. */
#include "daemon/client-watch.h"

/*
 * A program of this process attaches, and says which entries it has: clients that an earlier program of the
 * process was are ended.
 */
void client_exec_end_others(Manager *manager, pid_t pid, const Tslab__Attach *attach);

/* Looks at a few clients without a connection, and ends those whose process does not map the arena. */
void client_exec_tick(Manager *manager);
/* Ends a look that is under way. */
void client_exec_stop(ClientWatch *client);
