#include "daemon/request/request.h"
#include "daemon/request/trail.h"

void request_peaks_reset(RequestContext *context, const ProtoRequest *request) {
        Tslab__PeaksResetReply reset = TSLAB__PEAKS_RESET_REPLY__INIT;
        ProtoReply reply = PROTO_REPLY_INIT;
        Trail trail;

        trail_init(&trail, context);
        trail_log(&trail, "reset-peaks", NULL, "resets the high-water marks");
        high_water_reset(context->requests->high_water);
        reply.body_case = TSLAB__REPLY__BODY_PEAKS_RESET;
        reply.peaks_reset = &reset;
        session_send(context->session, context->id, &reply);
}
