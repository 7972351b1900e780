/* A trim that an operator asked for, answered when the trimmer is done. */
#include <stdlib.h>

#include "daemon/request/request.h"
#include "daemon/request/trail.h"

typedef struct TrimRequest {
        TrimJob job;
        Call call;
} TrimRequest;

static bool is_trim_wanted(const TrimJob *job) {
        const TrimRequest *trim = job->userdata;

        return trim->call.session != NULL;
}

static void answer_trim(const TrimRequest *request) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;

        trim.reclaimed_bytes = request->job.reclaimed_size;
        trim.huge_splits = request->job.n_split;
        trim.surplus_bytes = request->job.surplus_size;
        reply.body_case = TSLAB__REPLY__BODY_TRIM;
        reply.trim = &trim;
        session_send(request->call.session, request->call.id, &reply);
}

static void on_trimmed(TrimJob *job) {
        TrimRequest *trim = job->userdata;

        if (trim->call.session)
                answer_trim(trim);
        call_close(&trim->call);
        free(trim);
}

void request_trim(RequestContext *context, const ProtoRequest *request) {
        TrimRequest *trim = calloc(1, sizeof(*trim));
        Trail trail;

        if (!trim) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        trail_init(&trail, context);
        trail_log(&trail, "trim", NULL, "trims the pool");
        trim->job.is_wanted = is_trim_wanted;
        trim->job.on_done = on_trimmed;
        trim->job.userdata = trim;
        call_open(&trim->call, context->session, context->id);
        trimmer_start(context->requests->trimmer, &trim->job);
}
