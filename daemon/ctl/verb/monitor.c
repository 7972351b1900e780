/*
 * monitor. Each event is written when it comes. Without --follow the verb ends with the daemon, as
 * 'busctl monitor' does and 'journalctl -f' does not: a script that relies on seeing all events must
 * learn that it missed some.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/deadline.h"

#define AGAIN_MSEC 250
#define AGAIN_USEC UINT64_C(5000000)

/* Reasons of our own to end the stream; above all PROTO_E_*. */
enum {
        MONITOR_GONE = 1000, /* the reader of the output has gone */
        MONITOR_FAILED,
};

static bool has_epoch(const Tslab__Event *event) {
        static const char *const kinds[] = { "advance", "close", "drained", "reserve" };

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i)
                if (!strcmp(event->kind, kinds[i]))
                        return true;
        return event->epoch != 0;
}

static json_object *event_to_json(const Tslab__Event *event) {
        json_object *o = json_new_object();

        json_add_u64(o, "usec", event->usec);
        json_add_string(o, "kind", event->kind);
        json_add_string(o, "text", event->text);
        json_add_u64_or_null(o, "client", event->pid != 0, event->client);
        json_add_u64_or_null(o, "pid", event->pid > 0, (uint64_t) event->pid);
        json_add_u64_or_null(o, "epoch", has_epoch(event), event->epoch);
        json_add_u64(o, "bytes", event->bytes);
        return o;
}

static void print_event(const Tslab__Event *event) {
        time_t seconds = (time_t) (event->usec / 1000000);
        char when[64] = "";
        struct tm local;

        if (localtime_r(&seconds, &local))
                (void) strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
        (void) fprintf(output_stream(), "%s.%06u  %-8s  %s\n", when, (unsigned) (event->usec % 1000000),
                       event->kind, event->text);
}

static int write_now(void) {
        bool gone = false;
        CtlExit r;

        r = output_flush_part(&gone);
        return r ? MONITOR_FAILED : gone ? MONITOR_GONE : 0;
}

static int on_event(void *userdata, const ProtoReply *reply) {
        if (reply->body_case != TSLAB__REPLY__BODY_WATCH)
                return 0;
        if (arg_json)
                output_json_line(event_to_json(reply->watch->event));
        else
                print_event(reply->watch->event);
        return write_now();
}

/* Watches until the daemon hangs up or the reader of the output goes. */
static int watch_events(Connection *connection, ProtoReply **ret_reply) {
        Tslab__Watch watch = TSLAB__WATCH__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;

        request.body_case = TSLAB__REQUEST__BODY_WATCH;
        request.watch = &watch;
        return proto_call(connection->call, &request, UINT64_MAX, on_event, NULL, ret_reply, NULL);
}

static int connect_again(Connection *connection) {
        connection->call = proto_call_free(connection->call);
        connection->hello = proto_reply_free(connection->hello);
        return connection_try_running(connection->path, AGAIN_USEC, &connection->call, &connection->hello);
}

/*
 * Connects again if there is a daemon. If it is the one of before, it had dropped this connection,
 * which it does only to a watcher that is too slow. No daemon that was stopped is started by that.
 */
static bool was_too_slow(Connection *connection, uint64_t since_usec) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

        if (connect_again(connection) || ask_stats_quietly(connection->call, AGAIN_USEC, &reply))
                return false;
        return reply->stats->uptime_usec > proto_now_usec() - since_usec;
}

static void print_reason(bool too_slow) {
        (void) complain(
                too_slow ? "this did not take events fast enough, and the daemon dropped it: some are lost"
                         : "the daemon hung up; waiting for the next one");
}

static void reconnect_monitor(Connection *connection) {
        while (!connection->call) {
                (void) poll(NULL, 0, AGAIN_MSEC);
                (void) connect_again(connection);
        }
        (void) fprintf(stderr, "tslabctl: connected again\n");
}

static CtlExit complain_end(const char *path) {
        char command[CONNECTION_COMMAND_SIZE];

        connection_command(command, path);
        return complain(
                "the daemon hung up: it ended, or this did not read fast enough; '%s monitor --follow' "
                "waits for the next one",
                command);
}

CtlExit verb_monitor(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        CtlExit exit_code;
        uint64_t since;
        int r;

        exit_code = connection_open(&connection);
        if (exit_code)
                return exit_code;

        for (;;) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

                since = proto_now_usec();
                r = watch_events(&connection, &reply);
                if (r == MONITOR_GONE)
                        return CTL_DONE;
                if (r == MONITOR_FAILED)
                        return CTL_FAILED;
                if (r && r != PROTO_E_CLOSED)
                        return connection_complain(connection.path, r, reply);
                if (!arg_follow)
                        return complain_end(connection.path);
                print_reason(was_too_slow(&connection, since));
                reconnect_monitor(&connection);
        }
}
