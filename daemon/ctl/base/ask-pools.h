#pragma once

/* Asks all pools for their numbers, side by side, so that daemons that do not answer cost no more time than one. */

#include "daemon/ctl/base/pools.h"
#include "proto/message.h"
#include "proto/path.h"

typedef enum PoolState {
        POOL_RUNNING,
        POOL_IDLE, /* systemd holds the socket, and starts a daemon when a program connects */
        POOL_DEAD,
        POOL_DENIED,
        POOL_SILENT,
        POOL_FOREIGN, /* another program answers, or a daemon of another version */
        _POOL_STATE_N,
} PoolState;

typedef struct AskedPool {
        char name[PROTO_POOL_NAME_MAX + 1];
        const char *path; /* one of the paths of Pools */
        PoolState state;
        ProtoReply *stats; /* NULL: not known */
} AskedPool;

/* Asks each pool that was found, and starts none that is idle. The array has an element for each path. */
AskedPool *pools_ask(const Pools *found);
/* Returns NULL. */
AskedPool *pools_asked_free(AskedPool *asked, size_t n);

/* "running", "idle", ... */
const char *pool_state_to_string(PoolState state);
