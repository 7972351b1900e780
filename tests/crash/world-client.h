#pragma once
/* Operations in which the library talks to a daemon or to the kernel, made by forked children of a client. */
#include "tests/crash/crash-world.h"

/* How many slabs are free when it begins. */
typedef enum ClientReserve {
        CLIENT_RESERVE_ANY,
        CLIENT_RESERVE_LOW, /* the next that is taken is the daemon's business */
        CLIENT_RESERVE_NONE, /* others have been, and have no memory now */
        CLIENT_RESERVE_NEVER, /* nor have others ever been */
} ClientReserve;

typedef struct ClientOperation {
        Operation operation;
        ClientReserve reserve;
        long call; /* to the system, that it must make */
        unsigned n_records; /* the child's, when it is done; 0: it has left */
        int n_fds; /* more than before, then */
} ClientOperation;

extern const ClientOperation client_operations[];
extern const unsigned n_client_operations;

#define CLIENT_CLASSES                                                                                       \
        { 64, 128, 256 }
#define CLIENT_N_CLASSES 3U
#define CLIENT_SCARCE 256U /* the size that is asked for when slabs are */

/* How all of them open the pool, which is $TSLAB_POOL. */
int client_open(struct tslab **ret);
/* Allocates some of every class, fills, checks and frees them. 0, or the failure. */
int client_use(struct tslab *pool);
