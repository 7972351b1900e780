#pragma once
/*
 * One connection. What a peer can make the daemon hold is bounded: the number of sessions (the oldest
 * that is idle and has not attached makes room for a new one; who has many, for his own: see
 * daemon/peer/share.h), the bytes that wait to be sent (who does not read is dropped), and the requests under
 * way (who has many is not read from).
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/manager.h"
#include "proto/message.h"

#define SESSION_CALLS_MAX 8U
#define SESSION_QUEUE_MAX (256U * 1024U)
#define SESSION_HELLO_USEC (10 * UINT64_C(1000000))

typedef struct Outgoing Outgoing;
typedef struct Call Call;

struct Session {
        Manager *manager;
        Session *previous, *next;
        int fd;
        sd_event_source *source;
        uint64_t since_usec; /* CLOCK_MONOTONIC */
        uint64_t since_realtime_usec;

        struct ucred peer;
        uint32_t role; /* 0 before hello */
        char comm[16];
        bool over_share; /* its user has too many: it is heard, and refused */
        bool inherited; /* by ForkAttach: its process is that of the message, not of the socket */
        ClientWatch *client; /* NULL before attach */

        Outgoing *queue, *queue_last;
        size_t queue_size;
        Call *calls;
        unsigned n_calls;
        uint64_t watch_id; /* request of the events; 0: none */
        bool closing; /* hangs up when all is sent */
        bool dropped; /* to be freed by the reaper */
};

/*
 * Takes `fd` when it succeeds. ret_session may be NULL. `groups_fd`: as for session_role_of(); the peer
 * need not be who made `fd`. -EUSERS: there are too many; -ENOMEM, ...
 */
int session_new(Session **ret_session, Manager *manager, int fd, const struct ucred *peer, int groups_fd);
/* Returns NULL. Not from within a callback of the session: session_drop(). */
Session *session_free(Session *session);
/* No more of it: nothing is read, nothing sent; soon freed. */
void session_drop(Session *session);

/* The highest role these credentials may have; with the groups of who connected `fd`, or -1. 0: none. */
uint32_t session_role_of(const Manager *manager, const struct ucred *peer, int fd);

/* `id` is set here. A reply that breaks a limit, or cannot be sent, ends in an error or a drop. */
void session_send(Session *session, uint64_t id, ProtoReply *reply);
/* The descriptors stay the caller's. */
void session_send_fds(Session *session, uint64_t id, ProtoReply *reply, const int *fds, size_t n_fds);
void session_refuse(Session *session, uint64_t id, int error, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* What to wait for, after something of it changed. */
void session_update(Session *session);

/* Frees those that were dropped. */
void sessions_reap(Manager *manager);
/* Drops those that say no hello. */
void sessions_tick(Manager *manager);

/*
 * A request that is answered later. The session may go before: then it is NULL.
 */
struct Call {
        Session *session;
        uint64_t id;
        Call *previous, *next;
};

/* Not to be moved while it is open. */
void call_open(Call *call, Session *session, uint64_t id);
void call_close(Call *call);
