#include <errno.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/request/request.h"
#include "proto/cleanup.h"

static void answer_samples(RequestContext *context, Tslab__SamplesReply *body, int fd) {
        ProtoReply reply = PROTO_REPLY_INIT;

        body->attached_fd = fd >= 0;
        reply.body_case = TSLAB__REPLY__BODY_SAMPLES;
        reply.samples = body;
        session_send_fds(context->session, context->id, &reply, &fd, fd >= 0 ? 1 : 0);
}

static void keep_samples(RequestContext *context, uint32_t every) {
        Session *session = context->session;
        Tslab__SamplesReply body = TSLAB__SAMPLES_REPLY__INIT;
        Samples about = { .every = every, .pid = session->peer.pid, .uid = session->peer.uid };
        int r;

        if (!session->client) {
                session_refuse(session, context->id, -EPROTO,
                               "only a process that has attached can send samples");
                return;
        }
        about.client = session->client->index;
        about.mark = session->client->mark;
        memcpy(about.comm, session->comm, sizeof(about.comm));
        r = samples_check(context->fds->fds[0]);
        if (r == 0)
                r = samples_add(context->requests->samples, &about, context->fds->fds[0]);
        if (r < 0) {
                session_refuse(session, context->id, r, "tslabd could not keep the samples of %s: %s",
                               log_process(session->peer.pid).text, strerror(-r));
                return;
        }
        (void) proto_fds_take(context->fds, 0); /* it is kept */
        answer_samples(context, &body, -1);
}

static void send_arena(RequestContext *context) {
        _cleanup_(proto_closep) int fd = request_reopen_for_reading(context->requests->pool->arena.fd);
        Tslab__SamplesReply body = TSLAB__SAMPLES_REPLY__INIT;

        if (fd < 0)
                session_refuse(context->session, context->id, fd,
                               "tslabd could not open the arena for reading: %s", strerror(-fd));
        else
                answer_samples(context, &body, fd);
}

static void send_samples(RequestContext *context, uint32_t index) {
        const Samples *samples = samples_get(context->requests->samples, index);
        Tslab__SamplesReply body = TSLAB__SAMPLES_REPLY__INIT;

        if (!samples) {
                answer_samples(context, &body, -1);
                return;
        }
        body.client = samples->client;
        body.pid = (int32_t) samples->pid;
        body.uid = (uint32_t) samples->uid;
        body.comm = (char *) samples->comm;
        body.every = samples->every;
        body.gone = samples_is_gone(context->requests->samples, samples);
        answer_samples(context, &body, samples->fd);
}

void request_samples(RequestContext *context, const ProtoRequest *request) {
        if (request->samples->every != 0)
                keep_samples(context, request->samples->every);
        else if (context->session->role < PROTO_ROLE_OPERATOR)
                session_refuse(context->session, context->id, -EPERM,
                               "only operators may see samples in this pool");
        else if (request->samples->index == 0)
                send_arena(context);
        else
                send_samples(context, request->samples->index - 1);
}
