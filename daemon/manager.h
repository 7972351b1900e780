#pragma once
/*
 * The daemon as a whole: owns the arena, the event loop and all else. Everything runs in one
 * thread; what takes long is a task, which runs in slices: see daemon/task.h.
 */
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/passed.h"
#include "daemon/pool.h"

typedef struct Manager Manager;
typedef struct Listener Listener;
typedef struct Session Session;
typedef struct ClientWatch ClientWatch;
typedef struct ClientReaper ClientReaper;
typedef struct Maintainer Maintainer;
typedef struct Reserve Reserve;
typedef struct Trimmer Trimmer;
typedef struct Pressure Pressure;
typedef struct Counter Counter;
typedef struct Checker Checker;
typedef struct Peaks Peaks;
typedef struct Samples Samples;
typedef struct MapJob MapJob;
typedef struct AdvanceJob AdvanceJob;

struct Manager {
        Pool pool;
        sd_event_source *sigterm, *sigint, *sighup, *sigusr1;
        sd_event_source *tick; /* once a second */
        sd_event_source *reaper; /* frees dropped sessions */

        Passed passed;
        int arena_lock; /* that it is served; -1: not marked */
        bool taken_up; /* from an earlier daemon */

        Listener *listener;
        Maintainer *maintainer;
        Reserve *reserve;
        Trimmer *trimmer;
        Pressure *pressure;
        Counter *counter;
        Checker *checker;
        Peaks *peaks;
        Samples *samples; /* those that clients gave us; the newest first */
        MapJob *maps; /* under way */
        AdvanceJob *advances, *advances_last; /* the first is under way */

        Session *sessions;
        unsigned n_sessions;
        ClientWatch *clients;
        ClientReaper *client_reaper;
        unsigned n_unwatched; /* clients */
        unsigned n_unrepaired; /* dead clients whose records hold something still */

        uint64_t share_said_usec; /* that a user has all that one may have; 0: not yet */
        char status[192];
};

/* Logs what goes wrong. */
int manager_new(Manager **ret_manager, Options *options);
int manager_run(Manager *manager);
/* NULL-safe, returns NULL. */
Manager *manager_free(Manager *manager);

/* A client, or one of its threads, asked to be looked after: the reserve, or slabs that drained. */
void manager_wake(Manager *manager);
