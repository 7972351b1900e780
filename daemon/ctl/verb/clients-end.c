/*
 * Ends a client by SIGTERM, with the rights of the user who asks. The daemon sends the pidfd of its client: the number
 * may mean another process in tslabctl's pid namespace, or soon.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/deadline.h"
#include "proto/message.h"

#define END_SEC 10

static CtlExit parse_pid(const char *text, pid_t *ret) {
        char *end;
        long pid = strtol(text, &end, 10);

        if (end == text || *end || pid <= 0 || pid > INT32_MAX)
                return complain_usage("'%s' is no process number", text);
        *ret = (pid_t) pid;
        return CTL_DONE;
}

static CtlExit ask_pidfd(pid_t pid, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        Tslab__Clients clients = TSLAB__CLIENTS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        clients.pid = pid;
        request.body_case = TSLAB__REQUEST__BODY_CLIENTS;
        request.clients = &clients;
        r = connection_open(&connection);
        r = r ?: connection_call_fds(&connection, &request, CONNECTION_USEC, ret_reply, ret_fds);
        if (r)
                return r;
        if ((*ret_reply)->body_case == TSLAB__REPLY__BODY_CLIENTS && (*ret_reply)->clients->n_clients == 1 &&
            ret_fds->n_fds == 1)
                return CTL_DONE;
        return complain("process %d is no client of this pool; 'tslabctl clients' shows them", pid);
}

/* 1: the process has ended. */
static int wait_for_end(int pidfd) {
        uint64_t deadline = proto_deadline(END_SEC * PROTO_USEC_PER_SEC);
        struct pollfd ended = { .fd = pidfd, .events = POLLIN };
        int r;

        do
                r = poll(&ended, 1, (int) (proto_deadline_left(deadline) / 1000));
        while (r < 0 && errno == EINTR);
        return r;
}

static CtlExit end_process(int pidfd, const Tslab__ClientInfo *client) {
        if (pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0 && errno != ESRCH) {
                if (errno == EINVAL)
                        return complain(
                                "process %d (%s) is not in this pid namespace, or in one below: run this in "
                                "its own, or in the daemon's",
                                client->pid, client->comm);
                return complain("process %d (%s) cannot be ended: %s", client->pid, client->comm,
                                strerror(errno));
        }
        if (wait_for_end(pidfd) == 1)
                return CTL_DONE;
        return complain("process %d (%s) still runs, %d seconds after SIGTERM; to kill it harms no pool",
                        client->pid, client->comm, END_SEC);
}

static void print_ended(const Tslab__ClientInfo *client) {
        json_object *o;

        if (!arg_json) {
                (void) fprintf(output_stream(), "Process %d (%s) has ended.\n", client->pid, client->comm);
                return;
        }
        o = json_new_object();
        json_add_u64(o, "pid", (uint64_t) client->pid);
        json_add_string(o, "comm", client->comm);
        output_json(o);
}

CtlExit verb_clients_end(char **args, size_t n_args) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        pid_t pid = 0;
        CtlExit r;

        r = parse_pid(args[0], &pid);
        r = r ?: ask_pidfd(pid, &reply, &fds);
        r = r ?: end_process(fds.fds[0], reply->clients->clients[0]);
        if (r == CTL_DONE)
                print_ended(reply->clients->clients[0]);
        return r;
}
