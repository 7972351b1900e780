#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/stats-text.h"

CtlExit verb_stats(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        CtlExit r;

        r = ask_stats(&connection, &reply);
        if (r)
                return r;

        if (arg_json)
                output_json(json_stats(reply->stats));
        else
                stats_print(output_stream(), reply->stats, arg_legend);
        return CTL_DONE;
}
