#pragma once
/*
 * A process that uses the arena. Only a readable pidfd is its death: a connection that ends says
 * nothing, and a process that is stopped or traced is alive. A process that executed another program
 * is as good as dead: see daemon/peer/client-exec.h.
 */
#include "daemon/peer/session.h"
#include "shm/arena/client.h"

struct ClientWatch {
        Manager *manager;
        ClientWatch *previous, *next;
        uint32_t index; /* in the arena's client table */
        pid_t pid;
        uid_t uid;
        uint32_t start_time; /* of one that an earlier daemon let in */
        uint64_t program; /* 0: not known */
        uint32_t role;
        Session *session; /* NULL: it hung up, or was dropped */
        bool hung_up; /* by itself: it may have closed the pool */
        bool dead; /* records of it are being repaired */
        bool unmapped; /* the last look did not find the arena in its memory */
        uint64_t look_usec; /* when to look next, CLOCK_MONOTONIC; under way: when that began */
        pid_t look_pid; /* of the process that looks; 0: none */
        sd_event_source *look;
        bool unwatched; /* nothing could tell of its death, which is looked for once a second */
        int pidfd;
        int wake_fd; /* eventfd, the daemon's end */
        sd_event_source *death, *wake;
};

/*
 * The process of the session becomes a client. -ESRCH: it is gone; -ENOSPC: the table is full;
 * -EREMOTE: its pid cannot be seen from here; ...
 */
int client_watch_new(ClientWatch **ret_client, Session *session, uint64_t program);
/* Its threads use nothing any more, and `how` says why: its records are released, or repaired. May free it. */
void client_watch_end(ClientWatch *client, const char *how);
/* Watches for the end of its process, by its pidfd; whether that lives. */
int client_watch_death(ClientWatch *client);
bool client_watch_lives(const ClientWatch *client);
/* Records that name it. */
uint32_t client_watch_count_records(const ClientWatch *client);
/* Makes the eventfd by which it wakes the daemon. */
int client_watch_wakes(ClientWatch *client);
/* Stops watching; the entry of the table stays. NULL-safe, returns NULL. */
ClientWatch *client_watch_free(ClientWatch *client);
/* Its session ended: the entry goes, now or later, when no record is in use. May free `client`. */
void client_watch_leave(ClientWatch *client);

/* It goes if it is dead, or has left, and has no record. True: it went, and was freed. */
bool client_watch_go(ClientWatch *client, uint32_t n_records);
