#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/style.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

static void print_count(FILE *out, const char *name, uint64_t n, Style style) {
        if (n > 0)
                (void) fprintf(out, "  %s%" PRIu64 " %s%s\n", style_begin(style), n, name, style_end(style));
}

static void print_check(FILE *out, const Tslab__CheckReply *reply) {
        Style style = reply->ok ? STYLE_GOOD : STYLE_BAD;

        (void) fprintf(out, "%s%s%s: looked at %s, %s.\n", style_begin(style),
                       reply->ok ? "Clean" : "Not clean", style_end(style),
                       format_count(FORMAT_BUFFER, reply->slabs, "slab", "slabs"),
                       format_count(FORMAT_BUFFER, reply->slots, "slot", "slots"));
        print_count(out, "lost", reply->lost_slots, STYLE_BAD);
        print_count(out, "doubled", reply->doubled_slots, STYLE_BAD);
        print_count(out, "unsettled (in the hands of threads at work, or that died just now)",
                    reply->unsettled_slots, STYLE_PLAIN);
        print_count(out, "wrong hints", reply->wrong_hints, STYLE_WARN);
        print_count(out, "repaired", reply->repaired, STYLE_GOOD);
        for (size_t i = 0; i < reply->n_problems; ++i)
                (void) fprintf(out, "%s%s\n", i ? "" : "\n", reply->problems[i]);
}

CtlExit verb_check(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Check check = TSLAB__CHECK__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_CHECK;
        request.check = &check;
        check.repair = arg_repair;

        r = ask_slow(&connection, &request, "checking",
                     arg_repair ? "slots that were repaired stay so; run it again for the rest" : NULL,
                     &reply);
        if (r)
                return r;

        if (arg_json)
                output_json(json_check(reply->check));
        else
                print_check(output_stream(), reply->check);
        return reply->check->ok ? CTL_DONE : CTL_FAILED;
}
