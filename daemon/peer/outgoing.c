#include "daemon/peer/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "proto/socket.h"
#include "proto/text.h"

#define OVERHEAD 256U /* what a message costs beside its bytes */

struct Outgoing {
        Outgoing *next;
        ProtoFds fds;
        size_t size;
        uint8_t data[];
};

static void fail(Session *session, int error) {
        log_peer(LOG_INFO, session->peer.pid, "process %d was dropped: could not send: %s",
                 (int) session->peer.pid, strerror(-error));
        session_drop(session);
}

static void sent(Session *session, int r) {
        if (r == PROTO_E_CLOSED)
                return; /* the hang-up is seen by reading, after what came before it */
        if (r == PROTO_E_OVERSIZED)
                fail(session, -EMSGSIZE);
        else if (r < 0)
                fail(session, r);
}

static Outgoing *outgoing_new(const uint8_t *data, size_t size, const int *fds, size_t n_fds) {
        Outgoing *out = malloc(sizeof(*out) + size);

        if (!out)
                return NULL;
        *out = (Outgoing){ .fds = PROTO_FDS_INIT, .size = size };
        memcpy(out->data, data, size);
        for (size_t i = 0; i < n_fds; i++) {
                out->fds.fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (out->fds.fds[i] < 0) {
                        proto_fds_deinit(&out->fds);
                        free(out);
                        return NULL;
                }
                out->fds.n_fds++;
        }
        return out;
}

static void enqueue(Session *session, const uint8_t *data, size_t size, const int *fds, size_t n_fds) {
        Outgoing *out;

        if (session->queue_size + size + OVERHEAD > SESSION_QUEUE_MAX) {
                log_peer(LOG_INFO, session->peer.pid, "process %d was dropped: it does not read its replies",
                         (int) session->peer.pid);
                session_drop(session);
                return;
        }
        out = outgoing_new(data, size, fds, n_fds);
        if (!out) {
                fail(session, -ENOMEM);
                return;
        }
        if (session->queue_last)
                session->queue_last->next = out;
        else
                session->queue = out;
        session->queue_last = out;
        session->queue_size += size + OVERHEAD;
        session_update(session);
}

void outgoing_send(Session *session, const uint8_t *data, size_t size, const int *fds, size_t n_fds) {
        int r = PROTO_E_AGAIN;

        if (session->dropped)
                return;
        if (!session->queue)
                r = proto_send(session->fd, data, size, fds, n_fds, NULL);
        if (r == PROTO_E_AGAIN)
                enqueue(session, data, size, fds, n_fds);
        else
                sent(session, r);
}

static void pop(Session *session) {
        Outgoing *out = session->queue;

        session->queue = out->next;
        if (!session->queue)
                session->queue_last = NULL;
        session->queue_size -= out->size + OVERHEAD;
        proto_fds_deinit(&out->fds);
        free(out);
}

void outgoing_flush(Session *session) {
        while (session->queue && !session->dropped) {
                const Outgoing *out = session->queue;
                int r = proto_send(session->fd, out->data, out->size, out->fds.fds, out->fds.n_fds, NULL);

                if (r == PROTO_E_AGAIN)
                        return;
                pop(session);
                sent(session, r);
        }
}

void outgoing_clear(Session *session) {
        while (session->queue)
                pop(session);
}

void session_send_fds(Session *session, uint64_t id, ProtoReply *reply, const int *fds, size_t n_fds) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        size_t size;
        int r;

        reply->id = id;
        r = proto_reply_pack(reply, n_fds, &data, &size);
        if (r == 0) {
                outgoing_send(session, data, size, fds, n_fds);
        } else if (r < 0) {
                fail(session, r);
        } else if (reply->error == 0) {
                /* What was read from the arena is not what can be there. */
                log_line(LOG_WARNING, "a reply could not be written: the arena seems to be damaged");
                session_refuse(session, id, -EUCLEAN, "the arena holds what cannot be told: run a check");
        } else {
                fail(session, -EBADMSG);
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
