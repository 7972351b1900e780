/* Reserving and labelling epochs. */
#include <errno.h>

#include "daemon/events.h"
#include "daemon/request/request.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"

/* A lease belongs to the client that this connection has attached. */
static int reserve_epoch(RequestContext *context, uint32_t id, const Tslab__EpochReserve *body,
                         uint32_t *ret) {
        ShmArena *arena = &context->requests->pool->arena;

        if (body->lease)
                return shm_epoch_lease(arena, id, body->label, context->session->client->index, ret);
        return shm_epoch_reserve(arena, id, body->label, ret);
}

void request_epoch_reserve(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        Requests *requests = context->requests;
        Pool *pool = requests->pool;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochReserveReply reply_body = TSLAB__EPOCH_RESERVE_REPLY__INIT;
        uint32_t id;
        int r;

        if (request->epoch_reserve->lease && !session->client) {
                session_refuse(session, context->id, -EINVAL,
                               "only a process that has attached can lease an epoch");
                return;
        }
        r = shm_epoch_spare(&pool->arena, &id);
        if (r == 0)
                r = shm_epoch_close(&pool->arena, id, true);
        if (r == 0) {
                maintainer_close(requests->maintainer, id, NULL);
                r = reserve_epoch(context, id, request->epoch_reserve, &reply_body.epoch);
        }
        if (r < 0) {
                request_refuse_epoch(context->requests, session, context->id, r, 0);
                return;
        }
        events_send(pool, &(EventInfo){ .kind = "reserve", .epoch = reply_body.epoch },
                    "epoch %u:%u is %s: %s", reply_body.epoch & 0xff, reply_body.epoch >> 8,
                    request->epoch_reserve->lease ? "leased" : "reserved", request->epoch_reserve->label);
        /* A thread may still have added a slab to the previous era. */
        maintainer_close(requests->maintainer, id, NULL);
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_RESERVE;
        reply.epoch_reserve = &reply_body;
        session_send(session, context->id, &reply);
}

void request_epoch_label(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        const Tslab__EpochLabel *label = request->epoch_label;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochLabelReply body = TSLAB__EPOCH_LABEL_REPLY__INIT;
        int r;

        r = shm_epoch_label(&context->requests->pool->arena, label->epoch, label->label);
        if (r < 0) {
                request_refuse_epoch(context->requests, session, context->id, r, label->epoch);
                return;
        }
        body.epoch = request_epoch_number(context->requests, label->epoch);
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_LABEL;
        reply.epoch_label = &body;
        session_send(session, context->id, &reply);
}
