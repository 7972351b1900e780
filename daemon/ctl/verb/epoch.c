/* epoch list, advance, reserve and label; close is in epoch-close.c. */

#include <stdio.h>

#include "daemon/ctl/advice/pool-hints.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/epoch-argument.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/style.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/epoch-table.h"
#include "proto/text.h"

static void print_epoch_hints(const Connection *connection, const Tslab__EpochListReply *list) {
        char command[CONNECTION_COMMAND_SIZE];
        Hints hints;

        connection_command(command, connection->path);
        hints_find_epochs(&hints, list->epochs, list->n_epochs, command);
        for (size_t i = 0; i < hints.n_hints; ++i)
                (void) fprintf(output_stream(), "%s%sWarning:%s %s.\n", i == 0 ? "\n" : "",
                               style_begin(STYLE_WARN), style_end(STYLE_WARN), hints.hints[i]);
}

CtlExit verb_epoch_list(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(table_freep) Table *table = epoch_table_new();
        Tslab__EpochList list = TSLAB__EPOCH_LIST__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        json_object *array;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LIST;
        request.epoch_list = &list;
        r = table_select(table, arg_columns);
        r = r ?: ask_daemon(&connection, &request, NULL, NULL, &reply);
        if (r)
                return r;

        if (!arg_json) {
                epoch_table_print(table, output_stream(), reply->epoch_list->epochs,
                                  reply->epoch_list->n_epochs, arg_legend);
                if (arg_legend)
                        print_epoch_hints(&connection, reply->epoch_list);
                return CTL_DONE;
        }

        array = json_new_array();
        for (size_t i = 0; i < reply->epoch_list->n_epochs; ++i)
                json_append(array, json_epoch(reply->epoch_list->epochs[i]));
        output_json(array);
        return CTL_DONE;
}

/* Answers advance and reserve: the epoch that is current or reserved now. */
static CtlExit show_epoch(uint32_t epoch, const char *sentence) {
        if (arg_json)
                output_json(json_epoch_number(epoch));
        else
                (void) fprintf(output_stream(), "Epoch %s %s.\n", format_epoch(FORMAT_BUFFER, epoch),
                               sentence);
        return CTL_DONE;
}

CtlExit verb_epoch_advance(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__EpochAdvance advance = TSLAB__EPOCH_ADVANCE__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &advance;

        r = ask_daemon(&connection, &request, NULL, NULL, &reply);
        return r ?: show_epoch(reply->epoch_advance->epoch, "is current");
}

static CtlExit admit_label(const char *label) {
        if (!proto_text_is_clean(label, PROTO_LABEL_MAX))
                return complain_usage("'%s' cannot be a label: these have at most %d bytes of UTF-8, and no "
                                      "control characters",
                                      label, PROTO_LABEL_MAX);
        return CTL_DONE;
}

CtlExit verb_epoch_reserve(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__EpochReserve reserve = TSLAB__EPOCH_RESERVE__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &reserve;
        reserve.label = n_args > 0 ? args[0] : (char *) "";

        r = admit_label(reserve.label);
        r = r ?: ask_daemon(&connection, &request, NULL, NULL, &reply);
        return r ?: show_epoch(reply->epoch_reserve->epoch, "is reserved");
}

CtlExit verb_epoch_label(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__EpochLabel label = TSLAB__EPOCH_LABEL__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LABEL;
        request.epoch_label = &label;
        label.label = args[1];

        r = epoch_argument(args[0], &label.epoch);
        r = r ?: admit_label(label.label);
        r = r ?: ask_daemon(&connection, &request, NULL, NULL, &reply);
        if (r == CTL_DONE && arg_json) {
                /* an older daemon does not say which era it was */
                json_object *o = json_epoch_number(reply->epoch_label->epoch ?: label.epoch);

                json_add_string(o, "label", label.label);
                output_json(o);
        }
        return r;
}
