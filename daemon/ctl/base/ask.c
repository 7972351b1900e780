#include "daemon/ctl/base/ask.h"

static void make_stats(ProtoRequest *request, Tslab__Stats *stats) {
        request->body_case = TSLAB__REQUEST__BODY_STATS;
        request->stats = stats;
}

CtlExit ask_stats(Connection *connection, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        CtlExit r;

        r = connection_open(connection);
        if (r)
                return r;

        make_stats(&request, &stats);
        return connection_call(connection, &request, CONNECTION_USEC, NULL, NULL, ret_reply);
}

int ask_stats_quietly(ProtoCall *call, uint64_t timeout_usec, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        make_stats(&request, &stats);
        return proto_call(call, &request, timeout_usec, NULL, NULL, ret_reply, NULL);
}

CtlExit ask_epochs(Connection *connection, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochList list = TSLAB__EPOCH_LIST__INIT;
        CtlExit r;

        r = connection_open(connection);
        if (r)
                return r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LIST;
        request.epoch_list = &list;
        return connection_call(connection, &request, CONNECTION_USEC, NULL, NULL, ret_reply);
}
