#pragma once
/*
 * A process that uses the arena. Only a readable pidfd proves its death: the end of a connection proves nothing, and
 * a process that is stopped or traced is alive. A process that executed another program counts as dead: see
 * daemon/peer/client-exec.h.
 */
#include "daemon/peer/identity.h"
#include "daemon/peer/maps-scan.h"
#include "daemon/peer/session.h"
#include "daemon/work/maintainer.h"
#include "shm/arena/client.h"

/* All clients of the pool. */
typedef struct Clients {
        Pool *pool;
        Maintainer *maintainer;
        ClientWatch *first;
        unsigned n_unwatched;
        unsigned n_unrepaired; /* dead clients with records that still hold slots or slabs */

        /* A client woke the daemon by its eventfd: the pool runs short of free slabs, or slabs have drained. */
        void (*on_wake)(void *userdata);
        void *userdata;
} Clients;

struct ClientWatch {
        Clients *clients;
        ClientWatch *previous, *next;
        uint32_t index; /* in the arena's client table */
        pid_t pid; /* 0: not known */
        uid_t uid;
        uint32_t mark; /* see daemon/peer/identity.h */
        bool is_hidden; /* /proc does not show the process, and its number tells nothing */
        bool is_lasting; /* as in its identity */
        uint64_t program; /* 0: not known */
        uint32_t role;
        Session *session; /* NULL: the session hung up, or was dropped */
        bool hung_up; /* by itself: it may have closed the pool */
        bool dead; /* its records are being repaired */
        bool unwatched; /* nothing would tell of its death; the daemon tries to watch it once a second */
        bool unmapped; /* the last scan did not find the arena in its memory */
        uint64_t scan_usec; /* when the next scan is due, or when the scan under way began; CLOCK_MONOTONIC */
        MapsScan scan;
        int pidfd;
        bool unkept; /* systemd may not have its pidfd, and gets it: see daemon/takeover/store.h */
        int wake_fd; /* eventfd, the daemon's end */
        sd_event_source *death, *wake;
};

unsigned clients_count(const Clients *clients);
/* The entries of a user. */
uint32_t clients_count_of(const Clients *clients, uid_t uid);
/* Whether this user may have one more client entry; see daemon/peer/share.h. */
bool clients_allow(const Clients *clients, uid_t uid);
/* Stops watching; the entries of the arena stay. */
void clients_clear(Clients *clients);

/* Has systemd keep the pidfd of a hidden client, now or as soon as it reads its socket again. */
void client_watch_keep(ClientWatch *client);

/*
 * The process of the session becomes a client. Takes the pidfd of its identity when it succeeds. -ENOSPC: the table is
 * full; ...
 */
int client_watch_new(ClientWatch **ret_client, Clients *clients, Session *session, Identity *identity,
                     uint64_t program);
/* Whether it is a client of this process, where that can be told. */
bool client_watch_is_of(const ClientWatch *client, const Identity *identity);
/* The client's threads use the arena no more; `how` says why. Its records are released, or repaired. May free it. */
void client_watch_end(ClientWatch *client, const char *how);
/* Watches the pidfd for the end of the process. 0 or a negative errno. */
int client_watch_death(ClientWatch *client);
/* Whether the process has not ended, by its pidfd, as far as is known. */
bool client_watch_lives(const ClientWatch *client);
/* Counts the records that name this client. */
uint32_t client_watch_count_records(const ClientWatch *client);
/* Makes the eventfd by which the client wakes the daemon. */
int client_watch_wakes(ClientWatch *client);
/* Stops watching; the entry of the table stays. NULL-safe, returns NULL. */
ClientWatch *client_watch_free(ClientWatch *client);

/* For Sessions: the client loses its session. After a hang-up it leaves, now or when no record of it is in use. */
void client_watch_hang_up(Session *session);
void client_watch_forget_session(Session *session);

/* Removes a client that is dead, or has left, if it has no record. True: it was freed. */
bool client_watch_remove(ClientWatch *client, uint32_t n_records);
