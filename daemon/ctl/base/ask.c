#include "daemon/ctl/base/ask.h"

#include "daemon/ctl/base/progress.h"

CtlExit ask_daemon(Connection *connection, ProtoRequest *request, ProtoCallMore more, void *userdata,
                   ProtoReply **ret_reply) {
        CtlExit r = connection_open(connection);

        return r ?: connection_call(connection, request, CONNECTION_USEC, more, userdata, ret_reply);
}

CtlExit ask_slow(Connection *connection, ProtoRequest *request, const char *text,
                 const char *when_interrupted, ProtoReply **ret_reply) {
        CtlExit r = connection_open(connection);

        if (r)
                return r;
        progress_begin(text, when_interrupted);
        r = connection_call(connection, request, CONNECTION_LONG, progress_on_reply, NULL, ret_reply);
        progress_end();
        return r;
}

static void make_stats(ProtoRequest *request, Tslab__Stats *stats) {
        request->body_case = TSLAB__REQUEST__BODY_STATS;
        request->stats = stats;
}

CtlExit ask_stats(Connection *connection, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        make_stats(&request, &stats);
        return ask_daemon(connection, &request, NULL, NULL, ret_reply);
}

int ask_stats_quietly(ProtoCall *call, uint64_t timeout_usec, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        make_stats(&request, &stats);
        return proto_call(call, &request, timeout_usec, NULL, NULL, ret_reply, NULL);
}

uint32_t epoch_number(const Tslab__EpochInfo *epoch) {
        return epoch->id | epoch->era << 8;
}

uint64_t stats_used_bytes(const Tslab__StatsReply *stats) {
        return stats->committed_bytes > stats->retained_bytes ? stats->committed_bytes - stats->retained_bytes
                                                              : 0;
}
