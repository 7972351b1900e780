#pragma once
/* A pool in full use, and the work of its daemon: requests, deaths of clients, and wakes. */
#include "shm/epoch/epoch.h"
#include "shm/maintain/repair.h"
#include "tests/util/daemon-fixture.h"

typedef struct DaemonPool DaemonPool;

typedef struct DaemonWork {
        const char *name;
        void (*prepare)(DaemonPool *pool); /* while the daemon runs; may be NULL */
        void (*begin)(DaemonPool *pool); /* the daemon stands still, and will find this when it goes on */
        bool (*is_over)(DaemonPool *pool);
        bool inside; /* a thread is in the middle of an operation */
        bool closes; /* the newest era of epoch 0 */
        bool ends; /* a client's life */
        bool opens; /* an epoch */
        bool repairs; /* the request is lost: the next daemon is asked again */
} DaemonWork;

extern const DaemonWork daemon_works[];
extern const unsigned n_daemon_works;

struct DaemonPool {
        const DaemonWork *work;
        DaemonFixture daemon;
        RawClient self, other;
        ProtoCall *control;
        uint32_t use_epoch; /* nothing is ever asked of it */
        uint64_t n_live; /* when all is done ... */
        uint64_t n_revocable; /* ... or so many less */
        ShmEpochInfo epochs[SHM_EPOCHS_MAX]; /* before */

        pid_t victim, caller;
        uint32_t victim_client;
        int victim_fd; /* a byte: leave. Answers with one */
        int answer_fd;
        ShmActor leaver;
        uint32_t leaver_id;
        uint64_t n_free;
};

void daemon_pool_open(DaemonPool *pool, const DaemonWork *work);
/* Ends the victim, and waits until the daemon, which runs again, has nothing left to do. */
void daemon_pool_quiet(DaemonPool *pool);
void daemon_pool_close(DaemonPool *pool);
