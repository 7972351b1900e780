#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

CtlExit verb_peaks_reset(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__PeaksReset reset = TSLAB__PEAKS_RESET__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_PEAKS_RESET;
        request.peaks_reset = &reset;
        r = ask_daemon(&connection, &request, NULL, NULL, &reply);
        if (r)
                return r;
        if (arg_json)
                output_json(json_new_object());
        else
                (void) fprintf(output_stream(), "The high-water marks begin anew.\n");
        return CTL_DONE;
}
