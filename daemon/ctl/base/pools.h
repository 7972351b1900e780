#pragma once

/* The sockets of pools on this machine: NAME.sock in the runtime directories. */

#include <stddef.h>

#include "daemon/ctl/base/complain.h"

typedef struct Pools {
        char **paths; /* sorted, pools of the system first */
        size_t n_paths;
} Pools;

#define POOLS_INIT                                                                                           \
        { NULL, 0 }

/*
 * Finds all. A directory that does not exist holds none. CTL_FAILED after a complaint: one cannot be
 * read.
 */
CtlExit pools_find(Pools *pools);
/* Adds the sockets of one directory. 0 or a negative errno. */
int pools_add_dir(Pools *pools, const char *dir);
void pools_deinit(Pools *pools);
