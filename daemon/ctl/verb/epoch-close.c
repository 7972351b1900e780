/*
 * epoch close. Of several epochs, all are closed before any is waited for, and all share the time of
 * --wait.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/epoch-argument.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/progress.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/close-confirm.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/deadline.h"

#define PENDING_MSEC 200 /* for threads inside an operation */

typedef struct Closing {
        uint32_t epoch;
        ProtoReply *reply; /* NULL: failed */
        uint64_t reclaimed_bytes; /* by an earlier call */
        uint32_t huge_splits; /* the same */
} Closing;

static CtlExit parse_epochs(uint32_t *epochs, char **args, size_t n_args) {
        for (size_t i = 0; i < n_args; ++i) {
                CtlExit r = epoch_argument(args[i], &epochs[i]);

                if (r)
                        return r;
                for (size_t j = 0; j < i; ++j)
                        if (epochs[j] == epochs[i])
                                return complain_usage("epoch '%s' is given twice", args[i]);
        }
        return CTL_DONE;
}

/* At most the limit of the protocol; never 0, which means something else there. */
static uint32_t msec_left(uint64_t deadline) {
        uint64_t left = proto_deadline_left(deadline) / 1000;

        if (left > PROTO_WAIT_MSEC_MAX)
                return PROTO_WAIT_MSEC_MAX;
        return left > 0 ? (uint32_t) left : 1;
}

/* --wait is for threads inside an operation as well as for objects. */
static void set_waits(Tslab__EpochClose *close, bool wait, uint64_t deadline) {
        close->wait_msec = wait ? msec_left(deadline) : PENDING_MSEC;
        close->wait_drained = wait;
        close->wait_drained_msec = wait && deadline != UINT64_MAX ? msec_left(deadline) : 0;
}

static CtlExit close_epoch(Connection *connection, Closing *closing, bool wait, uint64_t deadline) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &close;
        close.epoch = closing->epoch;
        close.revoke = arg_revoke;
        close.older = arg_older;
        set_waits(&close, wait, deadline);

        r = connection_call(connection, &request, CONNECTION_LONG, progress_on_reply, NULL, &reply);
        if (r)
                return r;

        /* from now on the number has its era, and no later era of the id is meant */
        closing->epoch = reply->epoch_close->epoch;
        reply->epoch_close->reclaimed_bytes += closing->reclaimed_bytes;
        closing->reclaimed_bytes = reply->epoch_close->reclaimed_bytes;
        reply->epoch_close->huge_splits += closing->huge_splits;
        closing->huge_splits = reply->epoch_close->huge_splits;
        (void) proto_reply_free(closing->reply);
        closing->reply = proto_steal(&reply);
        return CTL_DONE;
}

static bool needs_wait(const Closing *closing) {
        return closing->reply && (closing->reply->epoch_close->live_objects > 0 ||
                                  closing->reply->epoch_close->pending_threads > 0);
}

static CtlExit close_epochs(Connection *connection, Closing *closings, size_t n_closings) {
        bool wait = arg_wait && arg_wait_msec > 0, at_once = wait && n_closings == 1;
        uint64_t deadline =
                arg_wait_msec == UINT32_MAX ? UINT64_MAX : proto_deadline(arg_wait_msec * UINT64_C(1000));
        CtlExit worst = CTL_DONE;

        for (size_t i = 0; i < n_closings; ++i) {
                CtlExit r = close_epoch(connection, &closings[i], at_once, deadline);

                worst = worst ?: r;
        }

        for (size_t i = 0; wait && !at_once && i < n_closings; ++i) {
                CtlExit r = CTL_DONE;

                if (needs_wait(&closings[i]))
                        r = close_epoch(connection, &closings[i], true, deadline);
                worst = worst ?: r;
        }
        return worst;
}

static void print_class_rest(FILE *out, const Tslab__EpochCloseReply *reply) {
        for (size_t i = 0; i < reply->n_classes; ++i)
                (void) fprintf(out, "%s%" PRIu64 " of %u bytes", i ? ", " : " (",
                               reply->classes[i]->live_objects, reply->classes[i]->size);
        if (reply->n_classes > 0)
                (void) fputc(')', out);
}

static void print_closing(FILE *out, const Tslab__EpochCloseReply *reply) {
        (void) fprintf(out, "Epoch %s closed: %s given back, ", format_epoch(FORMAT_BUFFER, reply->epoch),
                       format_bytes(FORMAT_BUFFER, reply->reclaimed_bytes));
        if (reply->live_objects == 0) {
                (void) fprintf(out, "no objects remain");
        } else {
                (void) fprintf(
                        out, "%s",
                        format_count(FORMAT_BUFFER, reply->live_objects, "object remains", "objects remain"));
                print_class_rest(out, reply);
        }
        if (reply->huge_splits > 0)
                (void) fprintf(
                        out, "; %s a part",
                        format_count(FORMAT_BUFFER, reply->huge_splits, "huge page lost", "huge pages lost"));
        if (reply->pending_threads > 0)
                (void) fprintf(
                        out, "; %s still inside an operation",
                        format_count(FORMAT_BUFFER, reply->pending_threads, "thread is", "threads are"));
        (void) fprintf(out, ".\n");
}

/* An object for one epoch, an array for several. */
static void print_closings_json(const Closing *closings, size_t n_closings) {
        json_object *array;

        if (n_closings == 1) {
                if (closings[0].reply)
                        output_json(json_epoch_close(closings[0].reply->epoch_close));
                return;
        }

        array = json_new_array();
        for (size_t i = 0; i < n_closings; ++i)
                if (closings[i].reply)
                        json_append(array, json_epoch_close(closings[i].reply->epoch_close));
        output_json(array);
}

static CtlExit show_closings(const Closing *closings, size_t n_closings) {
        bool remain = false;

        for (size_t i = 0; i < n_closings; ++i) {
                if (!closings[i].reply)
                        continue;
                if (!arg_json)
                        print_closing(output_stream(), closings[i].reply->epoch_close);
                remain |= closings[i].reply->epoch_close->live_objects > 0;
        }
        if (arg_json)
                print_closings_json(closings, n_closings);

        return arg_wait && remain ? CTL_REMAIN : CTL_DONE;
}

CtlExit verb_epoch_close(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_freep) uint32_t *epochs = must(calloc(n_args, sizeof(*epochs)));
        Closing *closings = must(calloc(n_args, sizeof(*closings)));
        CtlExit r, shown;

        r = parse_epochs(epochs, args, n_args);
        r = r ?: connection_open(&connection);
        r = r || arg_yes ? r : close_confirm(&connection, epochs, n_args);
        for (size_t i = 0; i < n_args; ++i)
                closings[i].epoch = epochs[i];
        if (r == CTL_DONE) {
                progress_begin("closing", "epochs that were closed stay closed, and go on draining");
                r = close_epochs(&connection, closings, n_args);
                progress_end();
                shown = show_closings(closings, n_args);
                r = r ?: shown;
        }

        for (size_t i = 0; i < n_args; ++i)
                (void) proto_reply_free(closings[i].reply);
        free(closings);
        return r;
}
