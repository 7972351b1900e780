#pragma once
/* The daemon as a whole: makes all its parts, connects them, and runs the loop. */
#include "daemon/options.h"

typedef struct Manager Manager;

/* Whether systemd passes this process the memory of a pool, which systemd drops when the process fails. */
bool manager_is_given_pool(void);
/* Logs its errors. */
int manager_new(Manager **ret_manager, Options *options);
int manager_run(Manager *manager);
/* NULL-safe, returns NULL. */
Manager *manager_free(Manager *manager);
