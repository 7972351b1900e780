/* Hello, attach, and the fork-attach of a child that gets a connection of its own. */
#include <errno.h>
#include <string.h>

#include "daemon/peer/client-exec.h"
#include "daemon/peer/client-resume.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/request/request.h"
#include "proto/text.h"

static void answer_hello(RequestContext *context) {
        Session *session = context->session;
        ShmArena *arena = &context->requests->pool->arena;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__HelloReply hello = TSLAB__HELLO_REPLY__INIT;

        hello.protocol_version = PROTO_VERSION;
        hello.software = (char *) "tslabd " TSLAB_VERSION;
        hello.arena_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *) arena->arena_id };
        hello.format_version = SHM_FORMAT_VERSION;
        hello.format_hash = arena->header->format_hash;
        hello.pool = (char *) context->requests->pool->options->pool;
        hello.role = session->role;
        hello.arena_size = arena->size;
        if (context->requests->page_wait) {
                hello.page_wait_seconds = context->requests->page_wait->seconds;
                hello.page_wait_cause = (char *) context->requests->page_wait->cause;
        }
        reply.body_case = TSLAB__REPLY__BODY_HELLO;
        reply.hello = &hello;
        session_send(session, context->id, &reply);
}

void request_hello(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        const Tslab__Hello *hello = request->hello;
        uint32_t role = session_role_of(context->requests->pool, &session->peer, session->fd);

        if (hello->protocol_version != PROTO_VERSION) {
                session->closing = true;
                session_refuse(session, context->id, -EPROTONOSUPPORT,
                               "tslabd " TSLAB_VERSION
                               " speaks version %u of the protocol, and '%s' version %u: "
                               "update the older of the two",
                               PROTO_VERSION, hello->software, hello->protocol_version);
                return;
        }
        if (session->role != 0) {
                session_refuse(session, context->id, -EALREADY, "hello was said before on this connection");
                return;
        }
        if (role == 0) {
                session->closing = true;
                log_peer(LOG_NOTICE, session->peer.pid, "%s of user %u was refused: it has no role",
                         log_process(session->peer.pid).text, (unsigned) session->peer.uid);
                session_refuse(session, context->id, -EACCES,
                               "user %u is neither reader nor writer nor operator of this pool",
                               (unsigned) session->peer.uid);
                return;
        }
        if (session->over_share) {
                session->closing = true;
                share_log(&context->requests->sessions->share_log, context->requests->pool, &session->peer,
                          "connections");
                session_refuse(
                        session, context->id, -EDQUOT,
                        "the last connections to this pool are kept for operators, and for users that have "
                        "fewer than user %u",
                        (unsigned) session->peer.uid);
                return;
        }
        session->role = hello->want_role != 0 && hello->want_role < role ? hello->want_role : role;
        proto_text_clean(session->comm, sizeof(session->comm), hello->comm);
        log_line(LOG_DEBUG, "%s (%s, %s) connected as %s", log_process(session->peer.pid).text, session->comm,
                 hello->software, proto_role_to_string(session->role));
        answer_hello(context);
}

static void refuse_attach(RequestContext *context, int error) {
        switch (error) {
        case -ENOSPC:
                session_refuse(
                        context->session, context->id, error,
                        "the pool has as many clients as it has room for threads: see tslabd --threads");
                break;
        case -EDQUOT:
                share_log(&context->requests->sessions->share_log, context->requests->pool,
                          &context->session->peer, "clients");
                session_refuse(
                        context->session, context->id, error,
                        "the last entries for clients of this pool are kept for operators, and for users that "
                        "have few; user %u has %u: see tslabd --threads",
                        (unsigned) context->session->peer.uid,
                        clients_count_of(context->requests->clients, context->session->peer.uid));
                break;
        case -EUCLEAN:
                session_refuse(context->session, context->id, error,
                               "tslabd has no such client any more: close the pool, and open it again");
                break;
        case -EREMOTE:
                session_refuse(
                        context->session, context->id, error,
                        "this process is of another pid namespace, and the kernel, older than 6.5, would not tell "
                        "tslabd of its death: let them share a pid namespace, by docker run --pid or "
                        "shareProcessNamespace, or run tslabd on the host");
                break;
        case -EMFILE:
        case -ENFILE:
        case -ENOMEM:
        case -ENOBUFS:
                /* The program would take it for a want of its own, or for a full pool. */
                session_refuse(context->session, context->id, -EUSERS,
                               "tslabd has no room for %s, and the journal tells more: %s",
                               log_process(context->session->peer.pid).text, strerror(-error));
                break;
        default:
                session_refuse(context->session, context->id, error, "tslabd could not attach %s: %s",
                               log_process(context->session->peer.pid).text, strerror(-error));
        }
}

static void answer_attach(RequestContext *context, const ClientWatch *client) {
        Session *session = context->session;
        ShmArena *arena = &context->requests->pool->arena;
        _cleanup_(proto_closep) int read_fd = -1;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__AttachReply attach = TSLAB__ATTACH_REPLY__INIT;

        attach.client = client->index;
        attach.role = session->role;
        reply.body_case = TSLAB__REPLY__BODY_ATTACH;
        reply.attach = &attach;
        if (session->role >= PROTO_ROLE_WRITER) {
                session_send_fds(session, context->id, &reply, (int[]){ arena->fd, client->wake_fd }, 2);
                return;
        }
        read_fd = request_reopen_for_reading(arena->fd);
        if (read_fd < 0)
                refuse_attach(context, read_fd);
        else
                session_send_fds(session, context->id, &reply, &read_fd, 1);
}

/* Gives the session a client: that of `attach`, or a new one. */
static int attach_session(RequestContext *context, const Tslab__Attach *attach) {
        _cleanup_(identity_deinit) Identity identity = IDENTITY_NONE;
        const Resumption from = {
                .identity = &identity,
                .program = attach->program,
                .entry = attach->entry,
                .sender = context->sender->pid,
        };
        Clients *clients = context->requests->clients;
        Session *session = context->session;
        ClientWatch *client;
        int r;

        r = identity_find(&identity, session);
        if (r < 0)
                return r;
        if (attach->program != 0 && context->sender->pid == session->peer.pid)
                client_exec_end_others(clients, &identity, attach->program);
        r = client_resume_session(&client, clients, session, &from);
        if (r == 0 && session->role != PROTO_ROLE_OPERATOR && !clients_allow(clients, session->peer.uid))
                r = -EDQUOT;
        if (r == 0)
                r = client_watch_new(&client, clients, session, &identity, attach->program);
        return r < 0 ? r : 0;
}

void request_attach(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        ShmArena *arena = &context->requests->pool->arena;
        const Tslab__Attach *attach = request->attach;
        const ProtobufCBinaryData *id = &attach->arena_id;
        const ClientWatch *client;
        int r;

        if (id->len > 0 && memcmp(id->data, arena->arena_id, sizeof(arena->arena_id)) != 0) {
                session_refuse(session, context->id, -EUCLEAN,
                               "the pool was made anew: close it, and open it again");
                return;
        }
        if (session->client) {
                session_refuse(session, context->id, -EALREADY, "this connection has attached before");
                return;
        }
        r = attach_session(context, attach);
        if (r < 0) {
                log_peer(LOG_NOTICE, session->peer.pid, "%s could not attach: %s",
                         log_process(session->peer.pid).text, strerror(-r));
                refuse_attach(context, r);
                return;
        }
        client = session->client;
        proto_socket_let_fds(session->fd, true); /* a forked child sends one, and samples come so */
        log_client(LOG_INFO,
                   (LogFields){ .message = MESSAGE_ATTACH, .client = &client->index, .pid = client->pid },
                   "client %u is %s (%s), as %s", client->index, log_process(client->pid).text, session->comm,
                   proto_role_to_string(client->role));
        events_send(context->requests->pool,
                    &(EventInfo){ .kind = "attach", .client = client->index, .pid = client->pid ?: -1 },
                    "%s (%s) attached as client %u", log_process(client->pid).text, session->comm,
                    client->index);
        answer_attach(context, client);
}

/*
 * No reply: the child waits at the other end of the new socket, and sees it closed if the daemon refused. A child
 * that changed its user has the role of that user at most. A child of another pid namespace is refused, and connects by
 * the path: the new socket would name its creator, not the sender.
 */
void request_fork_attach(RequestContext *context, const ProtoRequest *request) {
        Session *parent = context->session, *session;
        uint32_t role;
        /* The session takes the descriptor only after it was checked; until then context->fds closes it. */
        int fd = context->fds->fds[0], r;

        r = proto_socket_adopt(fd, false);
        if (r == 0 && context->sender->pid <= 0)
                r = -EREMOTE;
        if (r == 0)
                r = session_new(&session, context->requests->sessions, fd, context->sender, -1);
        if (r < 0) {
                log_peer(r == -EREMOTE ? LOG_DEBUG : LOG_NOTICE, context->sender->pid,
                         "%s, a child of %s, was refused its parent's way: %s",
                         log_process(context->sender->pid).text, log_process(parent->peer.pid).text,
                         strerror(-r));
                return;
        }
        (void) proto_fds_take(context->fds, 0); /* the session owns it now */
        proto_socket_let_fds(fd, false);
        if (session->over_share) {
                session_drop(session); /* the child then connects by the path, and learns why it is refused */
                return;
        }
        /* A child of the same user keeps the role that its parent has by its groups. */
        role = context->sender->uid == parent->peer.uid
                       ? parent->role
                       : session_role_of(context->requests->pool, context->sender, -1);
        session->role = role < parent->role ? role : parent->role;
        session->inherited = true;
        proto_text_clean(session->comm, sizeof(session->comm), request->fork_attach->comm);
}
