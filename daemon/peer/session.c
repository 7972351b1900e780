#include "daemon/peer/session.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/peer/closer.h"
#include "proto/deadline.h"
#include "proto/socket.h"
#include "proto/text.h"
#include "shm/arena/clock.h"

#define UNREAD_MAX (16 * 1024) /* bytes in the kernel, with its overhead */

static int on_session_io(sd_event_source *source, int fd, uint32_t revents, void *userdata);
static void serve_session(Turn *turn);

uint32_t session_role_of(const Pool *pool, const struct ucred *peer, int fd) {
        return role_of(&pool->options->roles, peer, fd);
}

static uint32_t count_sessions_of(const Sessions *sessions, uid_t uid) {
        uint32_t n = 0;

        for (const Session *session = sessions->first; session; session = session->next)
                n += (!session->dropped || session->lingers) && session->peer.uid == uid;
        return n;
}

/*
 * Whether the peer has yet to read what was sent: descriptors, which the kernel charges to the daemon's user and
 * limits by RLIMIT_NOFILE, or more than a few bytes, which it charges to the daemon's cgroup. They stay after a close.
 */
static bool has_unread(const Session *session) {
        int size;

        return ioctl(session->fd, SIOCOUTQ, &size) == 0 && size > (session->sent_fds ? 0 : UNREAD_MAX);
}

/* Nobody would miss this session: it has not attached, and waits for nothing. */
static bool is_session_idle(const Session *session) {
        return !session->dropped && !session->client && session->watch_id == 0 && session->n_calls == 0 &&
               outgoing_is_empty(&session->outgoing) && !has_unread(session);
}

/*
 * The oldest idle session up to this role, of this user or of any. In a flood of connections a peer in the middle of
 * it is served before its session becomes the oldest.
 */
static Session *find_idle_session(const Sessions *sessions, uint32_t role_max, const uid_t *uid) {
        Session *found = NULL;

        for (Session *session = sessions->first; session; session = session->next)
                if (is_session_idle(session) && session->role <= role_max &&
                    (!uid || session->peer.uid == *uid))
                        found = session;
        return found;
}

/*
 * If there is no room, an idle session is dropped. A user with many connections loses one of their own. A user with
 * few takes anybody's, since idle connections of one user would keep out all others. If all of the user's own
 * connections are in use, the new one is read, so that its peer learns why it is refused.
 */
static bool make_session_room(Sessions *sessions, const struct ucred *peer, int groups_fd,
                              bool *ret_over_share) {
        uint32_t role = session_role_of(sessions->pool, peer, groups_fd);
        uint32_t limit = share_sessions_max(&sessions->pool->arena);
        uint32_t n_held = count_sessions_of(sessions, peer->uid);
        bool operates = role == PROTO_ROLE_OPERATOR, in_share, has_few;
        Session *idle;

        if (!operates)
                limit -= SHARE_SESSIONS_OPERATORS;
        in_share = operates || share_allows_session(limit, sessions->n, n_held);
        if (in_share && sessions->n < limit)
                return true;
        has_few = in_share || n_held < SHARE_SESSIONS_KEPT;
        idle = find_idle_session(sessions, role, has_few ? NULL : &peer->uid);
        *ret_over_share = !in_share && (!idle || (idle->over_share && idle->peer.uid == peer->uid));
        if (idle)
                session_drop(idle);
        return idle || sessions->n < limit;
}

int session_new(Session **ret_session, Sessions *sessions, int fd, const struct ucred *peer, int groups_fd) {
        bool over_share = false;
        Session *session;
        int r;

        if (!make_session_room(sessions, peer, groups_fd, &over_share))
                return -EUSERS;
        session = malloc(sizeof(*session));
        if (!session)
                return -ENOMEM;
        *session = (Session){
                .sessions = sessions,
                .next = sessions->first,
                .fd = fd,
                .since_usec = proto_now_usec(),
                .since_realtime_usec = shm_now_usec(),
                .peer = *peer,
                .over_share = over_share,
        };
        r = turns_join(&sessions->turns, &session->turn, peer->uid);
        if (r == 0)
                r = sd_event_add_io(sessions->pool->event, &session->source, fd, EPOLLIN, on_session_io,
                                    session);
        /* All sessions that have a request wait for their turns before one of them is served. */
        if (r >= 0)
                r = sd_event_source_set_priority(session->source, SD_EVENT_PRIORITY_NORMAL - 1);
        if (r < 0) {
                (void) sd_event_source_disable_unref(session->source);
                if (session->turn.user)
                        turns_leave(&sessions->turns, &session->turn);
                free(session);
                return r;
        }
        if (session->next)
                session->next->previous = session;
        sessions->first = session;
        sessions->n++;
        if (ret_session)
                *ret_session = session;
        return 0;
}

static void unlink_session(Session *session) {
        Sessions *sessions = session->sessions;

        if (session->next)
                session->next->previous = session->previous;
        if (session->previous)
                session->previous->next = session->next;
        else
                sessions->first = session->next;
        sessions->n--;
}

/* The session keeps nothing but its socket and its place in the list. */
static void empty_session(Session *session) {
        for (Call *call = session->calls; call; call = call->next)
                call->session = NULL;
        session->calls = NULL;
        if (session->client && session->sessions->on_free)
                session->sessions->on_free(session);
        session->watch_id = 0;
        outgoing_clear(&session->outgoing);
        session->source = sd_event_source_disable_unref(session->source);
}

Session *session_free(Session *session) {
        if (!session)
                return NULL;
        empty_session(session);
        unlink_session(session);
        turns_leave(&session->sessions->turns, &session->turn);
        (void) proto_socket_close(session->fd);
        free(session);
        return NULL;
}

void session_drop(Session *session) {
        if (session->dropped)
                return;
        session->dropped = true;
        turns_cancel(&session->turn);
        (void) sd_event_source_set_enabled(session->source, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(session->sessions->reaper, SD_EVENT_ONESHOT);
}

/*
 * A process that sent its socket by ForkAttach may still have it open, and take a message away between our look for
 * descriptors and the receive: the next message may then have some.
 */
static bool may_receive(const Session *session) {
        return !session->inherited || closer_has_room();
}

/*
 * While the peer leaves much unread, or the daemon has no room for descriptors that the peer sent, the connection
 * counts as one of its user's.
 */
static void reap_session(Session *session) {
        if (!has_unread(session) && may_receive(session) && proto_socket_drain(session->fd)) {
                (void) session_free(session);
                return;
        }
        if (session->lingers)
                return;
        empty_session(session);
        (void) shutdown(session->fd, SHUT_RDWR);
        session->lingers = true;
}

static int on_session_reaper(sd_event_source *source, void *userdata) {
        Sessions *sessions = userdata;
        Session *next;

        for (Session *session = sessions->first; session; session = next) {
                next = session->next;
                if (session->dropped)
                        reap_session(session);
        }
        return 0;
}

void sessions_tick(Sessions *sessions) {
        uint64_t now = proto_now_usec();

        for (Session *session = sessions->first; session; session = session->next) {
                if (session->role == 0 && now - session->since_usec > SESSION_HELLO_USEC)
                        session_drop(session);
                if (session->stuck) {
                        session->stuck = false;
                        session_update(session);
                }
                if (session->lingers)
                        (void) sd_event_source_set_enabled(sessions->reaper, SD_EVENT_ONESHOT);
        }
}

int sessions_init(Sessions *sessions, Pool *pool) {
        int r;

        *sessions = (Sessions){ .pool = pool };
        r = turns_init(&sessions->turns, pool->event, serve_session);
        if (r < 0)
                return r;
        r = sd_event_add_defer(pool->event, &sessions->reaper, on_session_reaper, sessions);
        return r < 0 ? r : sd_event_source_set_enabled(sessions->reaper, SD_EVENT_OFF);
}

void sessions_clear(Sessions *sessions) {
        while (sessions->first)
                (void) session_free(sessions->first);
}

void sessions_deinit(Sessions *sessions) {
        sessions_clear(sessions);
        turns_deinit(&sessions->turns);
        sessions->reaper = sd_event_source_disable_unref(sessions->reaper);
}

/* Not read from while it has many requests under way, or while its peer does not read. */
void session_update(Session *session) {
        uint32_t events = 0;

        if (session->dropped)
                return;
        if (session->closing && outgoing_is_empty(&session->outgoing)) {
                session_drop(session);
                return;
        }
        if (!session->closing && !session->stuck && session->n_calls < SESSION_CALLS_MAX &&
            outgoing_is_empty(&session->outgoing))
                events |= EPOLLIN;
        if (!outgoing_is_empty(&session->outgoing))
                events |= EPOLLOUT;
        if (sd_event_source_set_io_events(session->source, events) < 0)
                session_drop(session);
}

/* Any other end of an attached session leaves its client as it is: only a hang-up may mean that the client left. */
static void hang_up(Session *session) {
        session_drop(session);
        if (session->client && session->sessions->on_hang_up)
                session->sessions->on_hang_up(session);
}

/* ---- Sending */

static void drop_unsendable(Session *session, int error) {
        log_peer(LOG_INFO, session->peer.pid, "%s was dropped: could not send: %s",
                 log_process(session->peer.pid).text, strerror(-error));
        session_drop(session);
}

static void send_packed(Session *session, const uint8_t *data, size_t size, const int *fds, size_t n_fds) {
        int r;

        if (session->dropped)
                return;
        session->sent_fds |= n_fds > 0;
        r = outgoing_send(&session->outgoing, session->fd, data, size, fds, n_fds);
        if (r == OUTGOING_E_FULL) {
                log_peer(LOG_INFO, session->peer.pid, "%s was dropped: it does not read its replies",
                         log_process(session->peer.pid).text);
                session_drop(session);
        } else if (r < 0) {
                drop_unsendable(session, r);
        } else if (!outgoing_is_empty(&session->outgoing)) {
                session_update(session);
        }
}

void session_send_fds(Session *session, uint64_t id, ProtoReply *reply, const int *fds, size_t n_fds) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        size_t size;
        int r;

        reply->id = id;
        if (!reply->more)
                call_times_end(&session->sessions->call_times, &session->calls_open, id, proto_now_usec());
        r = proto_reply_pack(reply, n_fds, &data, &size);
        if (r == 0) {
                send_packed(session, data, size, fds, n_fds);
        } else if (r < 0) {
                drop_unsendable(session, r);
        } else if (reply->error == 0) {
                /* The reply breaks a limit of the protocol, so the arena held values that it never should. */
                log_line(LOG_WARNING, "a reply could not be written: the arena seems to be damaged");
                session_refuse(session, id, -EUCLEAN,
                               "the arena is damaged, and the reply cannot be sent: run a check");
        } else {
                drop_unsendable(session, -EBADMSG);
        }
}

void session_send(Session *session, uint64_t id, ProtoReply *reply) {
        session_send_fds(session, id, reply, NULL, 0);
}

void session_refuse(Session *session, uint64_t id, int error, const char *format, ...) {
        char text[PROTO_ERROR_TEXT_MAX + 1], clean[PROTO_ERROR_TEXT_MAX + 1];
        ProtoReply reply = PROTO_REPLY_INIT;
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        proto_text_clean(clean, sizeof(clean), text);
        reply.error = error;
        reply.message = clean;
        session_send(session, id, &reply);
}

/* ---- Receiving */

static void refuse_and_close(Session *session, uint64_t id, int error, const char *message) {
        session->closing = true;
        log_peer(LOG_INFO, session->peer.pid, "a message of %s was refused: %s",
                 log_process(session->peer.pid).text, message);
        if (id != 0)
                session_refuse(session, id, error, "%s", message);
        session_update(session);
}

static void receive_request(Session *session) {
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        struct ucred sender;
        uint64_t id = 0;
        int r;

        if (!may_receive(session)) {
                session->stuck = true;
                return;
        }
        r = proto_request_receive(session->fd, &request, &id, &fds, &sender);
        switch (r) {
        case 0:
                call_times_begin(&session->calls_open, request->id, request->body_case, proto_now_usec());
                session->sessions->on_request(session, request, &fds, &sender);
                break;
        case PROTO_E_AGAIN:
                break;
        case PROTO_E_CLOSED:
                hang_up(session);
                break;
        case PROTO_E_NO_ROOM:
                session->stuck = true;
                break;
        case PROTO_E_UNKNOWN:
                session_refuse(session, id, -EOPNOTSUPP,
                               "tslabd " TSLAB_VERSION " does not know this request or one of its options");
                break;
        case PROTO_E_BAD_FDS:
                refuse_and_close(session, id, -EBADMSG, "the message has the wrong number of descriptors");
                break;
        case PROTO_E_OVERSIZED:
                refuse_and_close(session, id, -EBADMSG, "the message is too large");
                break;
        case PROTO_E_MALFORMED:
                refuse_and_close(session, id, -EBADMSG, "the message breaks a limit of the protocol");
                break;
        default:
                log_peer(LOG_WARNING, session->peer.pid, "could not read from %s: %s",
                         log_process(session->peer.pid).text, strerror(-r));
                session_drop(session);
        }
}

static int on_session_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Session *session = userdata;
        int r = 0;

        if (revents & EPOLLOUT)
                r = outgoing_flush(&session->outgoing, session->fd);
        if (r < 0)
                drop_unsendable(session, r);
        if (!session->dropped && revents & EPOLLIN) {
                turns_wait(&session->sessions->turns, &session->turn);
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);
        }
        if (!session->dropped && revents & (EPOLLHUP | EPOLLERR))
                hang_up(session);
        session_update(session);
        return 0;
}

/* The session's turn has come. */
static void serve_session(Turn *turn) {
        Session *session = (Session *) (void *) ((char *) turn - offsetof(Session, turn));

        if (sd_event_source_set_enabled(session->source, SD_EVENT_ON) < 0) {
                session_drop(session);
                return;
        }
        receive_request(session);
        session_update(session);
}
