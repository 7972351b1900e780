#pragma once
/* The daemon as a whole: makes all its parts, connects them, and runs the loop. */
#include "daemon/options.h"

typedef struct Manager Manager;

/* Logs its errors. */
int manager_new(Manager **ret_manager, Options *options);
int manager_run(Manager *manager);
/* NULL-safe, returns NULL. */
Manager *manager_free(Manager *manager);
