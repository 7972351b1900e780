#pragma once
/*
 * One connection. Three bounds limit the memory that a peer can make the daemon hold: the number of sessions (the
 * oldest idle session that has not attached makes room for a new one, and a user who has many makes room among their
 * own: see daemon/peer/share.h), the bytes that wait to be sent (a session is dropped if its peer does not read; it
 * counts as long as the kernel keeps descriptors or many bytes for that peer), and the requests under way (a session
 * with many is not read from).
 *
 * A session knows neither requests nor clients: it calls the functions that the manager has put into Sessions.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/peer/call-times.h"
#include "daemon/peer/outgoing.h"
#include "daemon/peer/share.h"
#include "daemon/peer/turns.h"
#include "daemon/pool.h"
#include "proto/message.h"

#define SESSION_CALLS_MAX 8U
#define SESSION_HELLO_USEC (10 * UINT64_C(1000000))

typedef struct Session Session;
typedef struct ClientWatch ClientWatch;
typedef struct Call Call;

/* All connections of the pool. */
typedef struct Sessions {
        Pool *pool;
        Session *first;
        unsigned n;
        sd_event_source *reaper; /* frees dropped sessions */
        Turns turns;
        ShareLog share_log;
        CallTimes call_times;

        /* A whole, valid request. The callee takes the descriptors that it needs. */
        void (*on_request)(Session *session, const ProtoRequest *request, ProtoFds *fds,
                           const struct ucred *sender);
        /* The peer of an attached session closed the connection. The session is dropped already. */
        void (*on_hang_up)(Session *session);
        /* An attached session is about to be freed. */
        void (*on_free)(Session *session);
        void *userdata;
} Sessions;

struct Session {
        Sessions *sessions;
        Session *previous, *next;
        int fd;
        sd_event_source *source;
        Turn turn; /* while it waits, the session is not watched */
        uint64_t since_usec; /* CLOCK_MONOTONIC */
        uint64_t since_realtime_usec;

        struct ucred peer;
        uint32_t role; /* 0 before hello */
        char comm[16];
        bool over_share; /* its user has too many connections: the hello is read, and refused */
        bool inherited; /* by ForkAttach: the peer is the sender of the message, not the creator of the socket */
        ClientWatch *client; /* NULL before attach */

        Outgoing outgoing;
        Call *calls;
        unsigned n_calls;
        CallsOpen calls_open;
        uint64_t watch_id; /* the request that asked for events; 0: none */
        bool closing; /* hangs up when all is sent */
        bool stuck; /* its next message has descriptors, for which there is no room: it is looked at once a second */
        bool sent_fds;
        bool dropped; /* the reaper frees it */
        bool lingers; /* dropped, but its peer has yet to read what was sent, and so it counts */
};

/* The manager fills in the callbacks. 0 or a negative errno. */
int sessions_init(Sessions *sessions, Pool *pool);
/* Frees all sessions, but not the reaper's event source. */
void sessions_clear(Sessions *sessions);
void sessions_deinit(Sessions *sessions);
/* Drops the sessions that say no hello, and looks at sessions that are stuck. */
void sessions_tick(Sessions *sessions);

/*
 * Takes `fd` when it succeeds. ret_session may be NULL. `groups_fd`: as for session_role_of(); `peer` need not have
 * made `fd`. -EUSERS: there are too many; -ENOMEM, ...
 */
int session_new(Session **ret_session, Sessions *sessions, int fd, const struct ucred *peer, int groups_fd);
/* Returns NULL. Not from within a callback of the session: session_drop(). */
Session *session_free(Session *session);
/* Nothing more is read or sent. The session is freed soon, or once its peer has read what was sent, or hung up. */
void session_drop(Session *session);

/*
 * The highest role that these credentials may have, with the groups of the process that connected `fd`; -1: without
 * groups. 0: none.
 */
uint32_t session_role_of(const Pool *pool, const struct ucred *peer, int fd);

/* Sets the reply's id. A reply that breaks a limit, or cannot be sent, ends in an error reply or a drop. */
void session_send(Session *session, uint64_t id, ProtoReply *reply);
/* The descriptors stay the caller's. */
void session_send_fds(Session *session, uint64_t id, ProtoReply *reply, const int *fds, size_t n_fds);
void session_refuse(Session *session, uint64_t id, int error, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Sets the events that the session waits for, after something of it changed. */
void session_update(Session *session);

/* A request that is answered later. `session` becomes NULL if the session is freed before. */
struct Call {
        Session *session;
        uint64_t id;
        Call *previous, *next;
};

/* `call` must not move while it is open. */
void call_open(Call *call, Session *session, uint64_t id);
void call_close(Call *call);
