#include "daemon/peer/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/peer/client-watch.h"
#include "daemon/log.h"
#include "daemon/peer/outgoing.h"
#include "daemon/request/request.h"
#include "daemon/peer/share.h"
#include "proto/deadline.h"
#include "proto/socket.h"
#include "shm/arena/clock.h"

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata);

uint32_t session_role_of(const Manager *manager, const struct ucred *peer, int fd) {
        return role_of(&manager->pool.options->roles, peer, fd);
}

/* Nobody would miss it: it has not attached, and waits for nothing. */
static bool is_idle(const Session *session) {
        return !session->dropped && !session->client && session->watch_id == 0 && session->n_calls == 0 &&
               !session->queue;
}

/* The oldest, up to this role: of a flood, whoever comes in the middle of it is served before it is his turn. */
static Session *find_idle(const Manager *manager, uint32_t role_max, const uid_t *uid) {
        Session *found = NULL;

        for (Session *session = manager->sessions; session; session = session->next)
                if (is_idle(session) && session->role <= role_max && (!uid || session->peer.uid == *uid))
                        found = session;
        return found;
}

/*
 * Where there is none, somebody silent goes: one of his own, of a user who has many. Who has few takes
 * anybody's, or idle connections of one user would keep out all others. If all of these are in use, he
 * is heard, so that he learns why he is refused.
 */
static bool make_room(Manager *manager, const struct ucred *peer, int groups_fd, bool *ret_over_share) {
        uint32_t role = session_role_of(manager, peer, groups_fd), limit = share_sessions_max(manager);
        bool operates = role == PROTO_ROLE_OPERATOR, in_share, has_few;
        Session *idle;

        if (!operates)
                limit -= SHARE_SESSIONS_OPERATORS;
        in_share = operates || share_allows_session(manager, peer->uid, limit);
        if (in_share && manager->n_sessions < limit)
                return true;
        has_few = in_share || share_count_sessions(manager, peer->uid) < SHARE_SESSIONS_KEPT;
        idle = find_idle(manager, role, has_few ? NULL : &peer->uid);
        *ret_over_share = !in_share && (!idle || (idle->over_share && idle->peer.uid == peer->uid));
        if (idle)
                session_drop(idle);
        return idle || manager->n_sessions < limit;
}

int session_new(Session **ret_session, Manager *manager, int fd, const struct ucred *peer, int groups_fd) {
        bool over_share = false;
        Session *session;
        int r;

        if (!make_room(manager, peer, groups_fd, &over_share))
                return -EUSERS;
        session = malloc(sizeof(*session));
        if (!session)
                return -ENOMEM;
        *session = (Session){
                .manager = manager,
                .next = manager->sessions,
                .fd = fd,
                .since_usec = proto_now_usec(),
                .since_realtime_usec = shm_now_usec(),
                .peer = *peer,
                .over_share = over_share,
        };
        r = sd_event_add_io(manager->pool.event, &session->source, fd, EPOLLIN, on_io, session);
        if (r < 0) {
                free(session);
                return r;
        }
        if (session->next)
                session->next->previous = session;
        manager->sessions = session;
        manager->n_sessions++;
        if (ret_session)
                *ret_session = session;
        return 0;
}

static void unlink_session(Session *session) {
        Manager *manager = session->manager;

        if (session->next)
                session->next->previous = session->previous;
        if (session->previous)
                session->previous->next = session->next;
        else
                manager->sessions = session->next;
        manager->n_sessions--;
}

Session *session_free(Session *session) {
        if (!session)
                return NULL;
        for (Call *call = session->calls; call; call = call->next)
                call->session = NULL;
        if (session->client)
                session->client->session = NULL;
        outgoing_clear(session);
        unlink_session(session);
        (void) sd_event_source_disable_unref(session->source);
        (void) proto_close(session->fd);
        free(session);
        return NULL;
}

void session_drop(Session *session) {
        if (session->dropped)
                return;
        session->dropped = true;
        (void) sd_event_source_set_enabled(session->source, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(session->manager->reaper, SD_EVENT_ONESHOT);
}

void sessions_reap(Manager *manager) {
        Session *next;

        for (Session *session = manager->sessions; session; session = next) {
                next = session->next;
                if (session->dropped)
                        (void) session_free(session);
        }
}

void sessions_tick(Manager *manager) {
        uint64_t now = proto_now_usec();

        for (Session *session = manager->sessions; session; session = session->next)
                if (session->role == 0 && now - session->since_usec > SESSION_HELLO_USEC)
                        session_drop(session);
}

/* Not read from while it has much under way or does not read itself. */
void session_update(Session *session) {
        uint32_t events = 0;

        if (session->dropped)
                return;
        if (session->closing && !session->queue) {
                session_drop(session);
                return;
        }
        if (!session->closing && session->n_calls < SESSION_CALLS_MAX && !session->queue)
                events |= EPOLLIN;
        if (session->queue)
                events |= EPOLLOUT;
        if (sd_event_source_set_io_events(session->source, events) < 0)
                session_drop(session);
}

/* The peer hung up; nobody else does so to a client that lives. */
static void hang_up(Session *session) {
        ClientWatch *client = session->client;

        session_drop(session);
        if (!client)
                return;
        session->client = NULL;
        client->session = NULL;
        client_watch_leave(client);
}

static void close_after(Session *session, uint64_t id, int error, const char *message) {
        session->closing = true;
        log_peer(LOG_INFO, session->peer.pid, "a message of process %d was refused: %s",
                 (int) session->peer.pid, message);
        if (id != 0)
                session_refuse(session, id, error, "%s", message);
        session_update(session);
}

static void receive(Session *session) {
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        struct ucred sender;
        uint64_t id = 0;
        int r;

        r = proto_request_receive(session->fd, &request, &id, &fds, &sender);
        switch (r) {
        case 0:
                request_handle(session, request, &fds, &sender);
                break;
        case PROTO_E_AGAIN:
                break;
        case PROTO_E_CLOSED:
                hang_up(session);
                break;
        case PROTO_E_UNKNOWN:
                session_refuse(session, id, -EOPNOTSUPP,
                               "tslabd " TSLAB_VERSION " does not know this request or one of its options");
                break;
        case PROTO_E_BAD_FDS:
                close_after(session, id, -EBADMSG, "the number of descriptors is not that of this request");
                break;
        case PROTO_E_OVERSIZED:
                close_after(session, id, -EBADMSG, "the message is too large");
                break;
        case PROTO_E_MALFORMED:
                close_after(session, id, -EBADMSG, "the message breaks a limit of the protocol");
                break;
        default:
                log_peer(LOG_WARNING, session->peer.pid, "could not read from process %d: %s",
                         (int) session->peer.pid, strerror(-r));
                session_drop(session);
        }
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Session *session = userdata;

        if (revents & EPOLLOUT)
                outgoing_flush(session);
        if (!session->dropped && revents & EPOLLIN)
                receive(session);
        else if (!session->dropped && revents & (EPOLLHUP | EPOLLERR) && !(revents & EPOLLIN))
                hang_up(session);
        session_update(session);
        return 0;
}
