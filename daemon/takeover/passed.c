#include "daemon/takeover/passed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/notify.h"
#include "daemon/peer/identity.h"
#include "daemon/peer/kept.h"
#include "proto/cleanup.h"

#define STORE_MSEC 5000

static void free_names(char ***names) {
        for (char **name = *names; name && *name; name++)
                free(*name);
        free(*names);
}

static void refuse_descriptor(int fd, const char *name, const char *why) {
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_DESCRIPTOR, .name = name },
                   "descriptor '%s', which systemd passed, %s: it was refused and removed from the store",
                   name, why);
        (void) passed_remove(name);
        (void) proto_close(fd);
}

static int add_client(Passed *passed, int fd, uint32_t mark) {
        PassedClient *clients = reallocarray(passed->clients, passed->n_clients + 1, sizeof(*clients));

        if (!clients)
                return -ENOMEM;
        passed->clients = clients;
        clients[passed->n_clients++] = (PassedClient){ .mark = mark, .pidfd = fd };
        return 0;
}

/* A descriptor that cannot be looked at is an error, and stays in the store. */
static int take_descriptor(Passed *passed, int fd, const char *name) {
        uint32_t mark;
        int r;

        if (kept_parse(name, &mark))
                return add_client(passed, fd, mark);
        if (!strcmp(name, PASSED_ARENA)) {
                if (passed->arena < 0)
                        passed->arena = fd;
                else
                        refuse_descriptor(fd, name, "is there twice");
                return 0;
        }
        /* The last daemon ended in the middle of a check. */
        if (!strcmp(name, PASSED_PROBE)) {
                (void) passed_remove(name);
                (void) proto_close(fd);
                return 0;
        }
        r = sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1);
        if (r < 0)
                return r;
        if (r == 0)
                refuse_descriptor(fd, name,
                                  "is neither the pool's memory nor a listening SOCK_SEQPACKET socket");
        else if (passed->socket < 0)
                passed->socket = fd;
        else
                refuse_descriptor(fd, name, "is a second socket, and a pool has one");
        return 0;
}

int passed_take(Passed *ret) {
        _cleanup_(free_names) char **names = NULL;
        Passed passed = { .socket = -1, .arena = -1 };
        int n = sd_listen_fds_with_names(true, &names), r = 0;

        if (n < 0) {
                log_error(LOG_ERR, n, "could not read the descriptors that systemd passed");
                return n;
        }
        for (int i = 0; i < n && r == 0; i++) {
                r = take_descriptor(&passed, SD_LISTEN_FDS_START + i, names[i]);
                if (r < 0)
                        log_error(LOG_ERR, r, "could not take the descriptor '%s', which systemd passed",
                                  names[i]);
        }
        *ret = passed;
        return r;
}

bool passed_has_arena(void) {
        const char *pid = secure_getenv("LISTEN_PID"), *name = secure_getenv("LISTEN_FDNAMES");
        size_t n;

        if (!pid || !name || atoi(pid) != (int) getpid())
                return false;
        for (;; name += n + 1) {
                n = strcspn(name, ":");
                if (n == strlen(PASSED_ARENA) && !strncmp(name, PASSED_ARENA, n))
                        return true;
                if (!name[n])
                        return false;
        }
}

void passed_deinit(Passed *passed) {
        passed->socket = proto_close(passed->socket);
        passed->arena = proto_close(passed->arena);
        for (size_t i = 0; i < passed->n_clients; i++)
                (void) proto_close(passed->clients[i].pidfd);
        free(passed->clients);
        passed->clients = NULL;
        passed->n_clients = 0;
}

int passed_take_client(Passed *passed, uint32_t mark) {
        for (size_t i = 0; i < passed->n_clients; i++)
                if (passed->clients[i].mark == mark && passed->clients[i].pidfd >= 0)
                        return proto_steal_fd(&passed->clients[i].pidfd);
        return -1;
}

void passed_drop_clients(Passed *passed) {
        for (size_t i = 0; i < passed->n_clients; i++) {
                if (passed->clients[i].pidfd < 0)
                        continue;
                passed->clients[i].pidfd = proto_close(passed->clients[i].pidfd);
                kept_remove(passed->clients[i].mark);
        }
}

/* Until systemd has read all that it was told. */
static bool wait_for_systemd(void) {
        _cleanup_(proto_closep) int barrier = notify_send_pipe("BARRIER=1");

        return barrier >= 0 && notify_pipe_is_closed(barrier, STORE_MSEC);
}

/* systemd never says that it refuses a descriptor, but closes it, which the other end of a pipe shows. */
void passed_check_store(void) {
        _cleanup_(proto_closep) int probe = notify_send_pipe(PASSED_TEXT(PASSED_PROBE));

        if (probe < 0)
                return;
        if (wait_for_systemd() && notify_pipe_is_closed(probe, 0))
                log_fields(
                        LOG_WARNING, (LogFields){ .message = MESSAGE_NOT_KEPT },
                        "systemd does not keep the memory of the pool, which is lost when the daemon ends: "
                        "raise FileDescriptorStoreMax= of the unit, then 'systemctl daemon-reload'");
        (void) passed_remove(PASSED_PROBE);
}

bool passed_send_arena(int fd) {
        return notify_send_fd(fd, PASSED_TEXT(PASSED_ARENA)) > 0;
}

void passed_store_arena(int fd) {
        int r = notify_send_fd(fd, PASSED_TEXT(PASSED_ARENA));

        if (r > 0 && !wait_for_systemd())
                r = -ETIMEDOUT;
        if (r < 0)
                log_error(LOG_WARNING, r,
                          "could not store the memory in systemd: the pool will not survive a restart");
}

int passed_remove(const char *name) {
        return notify_send("FDSTOREREMOVE=1\nFDNAME=%s", name);
}
