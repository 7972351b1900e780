#pragma once
/*
 * A process that uses the arena. Only a readable pidfd is its death: a connection that ends says
 * nothing, and a process that is stopped or traced is alive.
 */
#include "daemon/session.h"
#include "shm/client.h"

struct ClientWatch {
        Manager *manager;
        ClientWatch *previous, *next;
        uint32_t index; /* in the arena's client table */
        pid_t pid;
        uid_t uid;
        uint32_t start_time; /* of one that an earlier daemon let in */
        uint32_t role;
        Session *session; /* NULL: it hung up, or was dropped */
        bool hung_up; /* by itself: it may have closed the pool */
        bool dead; /* records of it are being repaired */
        bool unwatched; /* nothing could tell of its death, which is looked for once a second */
        int pidfd;
        int wake_fd; /* eventfd, the daemon's end */
        sd_event_source *death, *wake;
};

/*
 * The process of the session becomes a client. -ESRCH: it is gone; -ENOSPC: the table is full;
 * -EREMOTE: its pid cannot be seen from here; ...
 */
int client_watch_new(ClientWatch **ret_client, Session *session);
/*
 * A process that an earlier daemon let in: 1, or 0 where it is gone, which then is its death. It has
 * no session till it connects. What cannot be told, for want of descriptors, is told later: it counts
 * as alive, and as one of manager->n_unwatched.
 */
int client_watch_resume(Manager *manager, const ShmClientInfo *info);
/* Looks at those of this process, or 0, that are not watched; some may go. 0, or why it cannot be told. */
int client_watches_look(Manager *manager, pid_t pid);
/* Makes the eventfd by which it wakes the daemon. */
int client_watch_wakes(ClientWatch *client);
/* Stops watching; the entry of the table stays. NULL-safe, returns NULL. */
ClientWatch *client_watch_free(ClientWatch *client);
/* Its session ended: the entry goes, now or later, when no record is in use. May free `client`. */
void client_watch_leave(ClientWatch *client);

/* Records of the dead were repaired: clients that have none left go. */
void client_watches_repaired(Manager *manager);
/* Also looks for threads that ended without giving their records back, where these run short. */
void client_watches_tick(Manager *manager);
