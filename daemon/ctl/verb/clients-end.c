/*
 * Ends a client by SIGTERM, with the rights of the user who asks: the daemon has none over other processes. A pidfd
 * that is opened before the daemon is asked keeps another process from taking the number meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/clients.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/message.h"

#define END_MSEC 10000

static CtlExit parse_pid(const char *text, pid_t *ret) {
        char *end;
        long pid = strtol(text, &end, 10);

        if (end == text || *end || pid <= 0 || pid > INT32_MAX)
                return complain_usage("'%s' is no process number", text);
        *ret = (pid_t) pid;
        return CTL_DONE;
}

/* Whether the number means the daemon's process here, too: tslabctl may be in another pid namespace. */
static bool is_same_process(const Tslab__ClientInfo *client) {
        struct stat status;
        char path[32];

        (void) snprintf(path, sizeof(path), "/proc/%d", client->pid);
        return stat(path, &status) == 0 && status.st_uid == client->uid;
}

static CtlExit find_client(const ClientList *list, pid_t pid, const Tslab__ClientInfo **ret) {
        for (size_t i = 0; i < list->n_clients; ++i)
                if (!list->clients[i].control_only && list->clients[i].pid == pid) {
                        *ret = &list->clients[i];
                        if (is_same_process(*ret))
                                return CTL_DONE;
                        return complain(
                                "process %d is another one here than the daemon's client: run this in the "
                                "daemon's pid namespace",
                                pid);
                }
        return complain("process %d is no client of this pool; 'tslabctl clients' shows them", pid);
}

static CtlExit end_process(int fd, const Tslab__ClientInfo *client) {
        struct pollfd ended = { .fd = fd, .events = POLLIN };

        if (pidfd_send_signal(fd, SIGTERM, NULL, 0) < 0 && errno != ESRCH)
                return complain("process %d (%s) cannot be ended: %s", client->pid, client->comm,
                                strerror(errno));
        if (poll(&ended, 1, END_MSEC) == 1)
                return CTL_DONE;
        return complain("process %d (%s) still runs, %d seconds after SIGTERM; 'kill -KILL %d' harms no pool",
                        client->pid, client->comm, END_MSEC / 1000, client->pid);
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
        _cleanup_(client_list_deinit) ClientList list = {};
        _cleanup_(proto_closep) int fd = -1;
        const Tslab__ClientInfo *client = NULL;
        pid_t pid = 0;
        CtlExit r;

        r = parse_pid(args[0], &pid);
        if (r)
                return r;
        fd = pidfd_open(pid, 0);
        if (fd < 0)
                return complain("process %d: %s", pid, strerror(errno));
        r = clients_ask(&list);
        r = r ?: find_client(&list, pid, &client);
        r = r ?: end_process(fd, client);
        if (r == CTL_DONE)
                print_ended(client);
        return r;
}
