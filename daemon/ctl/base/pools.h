#pragma once

/* The sockets of pools on this machine: NAME.sock in the runtime directories. */

#include <stddef.h>

#include "daemon/ctl/base/complain.h"

typedef struct Pools {
        char **paths; /* sorted, those of the system first */
        size_t n_paths;
} Pools;

#define POOLS_INIT                                                                                           \
        { NULL, 0 }

/* A directory that is not there holds none. CTL_FAILED after a complaint: one cannot be read. */
CtlExit pools_find(Pools *pools);
/* Adds those of one directory. 0 or a negative errno. */
int pools_add_dir(Pools *pools, const char *dir);
void pools_deinit(Pools *pools);
