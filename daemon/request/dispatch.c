#include "daemon/request/dispatch.h"

#include <errno.h>

#include "daemon/log.h"
#include "daemon/request/checker.h"
#include "daemon/request/counter.h"

/* Writers have this role, unless --operators-only is set. */
#define ROLE_CONTROL 4U

static const struct RequestType {
        uint32_t body;
        uint32_t role; /* the lowest that is allowed; 0: even before hello */
        const char *name;
        void (*handle)(RequestContext *context, const ProtoRequest *request);
} types[] = {
        { TSLAB__REQUEST__BODY_HELLO, 0, "hello", request_hello },
        { TSLAB__REQUEST__BODY_ATTACH, PROTO_ROLE_READER, "attach", request_attach },
        { TSLAB__REQUEST__BODY_FORK_ATTACH, PROTO_ROLE_READER, "fork", request_fork_attach },
        { TSLAB__REQUEST__BODY_EPOCH_LIST, PROTO_ROLE_READER, "list epochs", request_epoch_list },
        { TSLAB__REQUEST__BODY_EPOCH_ADVANCE, ROLE_CONTROL, "advance epochs", request_epoch_advance },
        { TSLAB__REQUEST__BODY_EPOCH_CLOSE, ROLE_CONTROL, "close epochs", request_epoch_close },
        { TSLAB__REQUEST__BODY_EPOCH_RESERVE, ROLE_CONTROL, "reserve epochs", request_epoch_reserve },
        { TSLAB__REQUEST__BODY_EPOCH_LABEL, ROLE_CONTROL, "label epochs", request_epoch_label },
        { TSLAB__REQUEST__BODY_STATS, PROTO_ROLE_READER, "see statistics", request_stats },
        { TSLAB__REQUEST__BODY_CLIENTS, PROTO_ROLE_READER, "see clients", request_clients },
        { TSLAB__REQUEST__BODY_TRIM, PROTO_ROLE_OPERATOR, "trim", request_trim },
        { TSLAB__REQUEST__BODY_CHECK, PROTO_ROLE_OPERATOR, "check", request_check },
        { TSLAB__REQUEST__BODY_ROOTS, PROTO_ROLE_READER, "see roots", request_roots },
        { TSLAB__REQUEST__BODY_SAMPLES, PROTO_ROLE_WRITER, "see samples", request_samples },
        { TSLAB__REQUEST__BODY_WATCH, PROTO_ROLE_READER, "watch", request_watch },
        { TSLAB__REQUEST__BODY_MAPS, PROTO_ROLE_READER, "see maps", request_maps },
        { TSLAB__REQUEST__BODY_MAP_SET, ROLE_CONTROL, "change maps", request_map_set },
        { TSLAB__REQUEST__BODY_PEAKS_RESET, PROTO_ROLE_OPERATOR, "reset high-water marks",
          request_peaks_reset },
        { TSLAB__REQUEST__BODY_SLAB_MAP, PROTO_ROLE_READER, "see the map", request_slab_map },
};

/* Events follow from here on. The peer ends this by closing the connection. */
void request_watch(RequestContext *context, const ProtoRequest *request) {
        context->session->watch_id = context->id;
}

int requests_init(Requests *requests) {
        int r = counter_new(&requests->counter, requests);

        if (r == 0)
                r = map_sizer_new(&requests->sizer, requests);
        return r < 0 ? r : checker_new(&requests->checker, requests->pool);
}

void requests_deinit(Requests *requests) {
        requests->checker = checker_free(requests->checker);
        requests->counter = counter_free(requests->counter);
        map_jobs_free(requests);
        close_looks_free(requests);
        requests->sizer = map_sizer_free(requests->sizer);
}

static const struct RequestType *find_type(uint32_t body) {
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
                if (types[i].body == body)
                        return &types[i];
        return NULL;
}

static uint32_t role_needed(const Requests *requests, const struct RequestType *type) {
        if (type->role != ROLE_CONTROL)
                return type->role;
        return requests->pool->options->operators_only ? PROTO_ROLE_OPERATOR : PROTO_ROLE_WRITER;
}

void request_dispatch(Requests *requests, Session *session, const ProtoRequest *request, ProtoFds *fds,
                      const struct ucred *sender) {
        const struct RequestType *type = find_type(request->body_case);
        RequestContext context = {
                .requests = requests, .session = session, .id = request->id, .fds = fds, .sender = sender
        };

        if (!type) {
                session_refuse(session, request->id, -EOPNOTSUPP,
                               "tslabd " TSLAB_VERSION " does not know this request");
                return;
        }
        if (type->role != 0 && session->role == 0) {
                session->closing = true;
                session_refuse(session, request->id, -EPROTO, "the first request of a connection is hello");
                return;
        }
        if (session->role < role_needed(requests, type)) {
                log_peer(LOG_NOTICE, session->peer.pid, "%s of user %u, a %s, may not %s",
                         log_process(session->peer.pid).text, (unsigned) session->peer.uid,
                         proto_role_to_string(session->role), type->name);
                session_refuse(session, request->id, -EPERM, "only %ss may %s in this pool, and this is a %s",
                               proto_role_to_string(role_needed(requests, type)), type->name,
                               proto_role_to_string(session->role));
                return;
        }
        type->handle(&context, request);
}
