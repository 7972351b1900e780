#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

static void print_trim(FILE *out, const Tslab__TrimReply *reply) {
        (void) fprintf(out, "%s given back", format_bytes(FORMAT_BUFFER, reply->reclaimed_bytes));
        if (reply->surplus_bytes > 0)
                (void) fprintf(out, ", of these %s of pages that belonged to no slab",
                               format_bytes(FORMAT_BUFFER, reply->surplus_bytes));
        if (reply->huge_splits > 0)
                (void) fprintf(
                        out, "; %s a part",
                        format_count(FORMAT_BUFFER, reply->huge_splits, "huge page lost", "huge pages lost"));
        (void) fprintf(out, ".\n");
}

CtlExit verb_trim(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &trim;

        r = ask_slow(&connection, &request, "trimming", "memory that was given back stays so", &reply);
        if (r)
                return r;

        if (arg_json)
                output_json(json_trim(reply->trim));
        else
                print_trim(output_stream(), reply->trim);
        return CTL_DONE;
}
