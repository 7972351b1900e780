#include "daemon/takeover/store.h"

#include <fcntl.h>
#include <poll.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/peer/kept.h"
#include "daemon/takeover/passed.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"

#define CHECK_USEC (30 * PROTO_USEC_PER_SEC)
#define OUST_MAX 32U /* clients in one check: systemd has to read three messages for each */

/* Returns the end of a pipe that shows when systemd closes the other one. -1: there is none. */
static int send_pipe(const char *text) {
        int ends[2], r;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        r = sd_pid_notify_with_fds(0, false, text, &ends[1], 1);
        (void) proto_close(ends[1]);
        return r > 0 ? ends[0] : proto_close(ends[0]);
}

static bool is_closed_by_systemd(int fd) {
        return poll(&(struct pollfd){ .fd = fd }, 1, 0) > 0;
}

static void end_check(Store *store) {
        passed_remove(PASSED_PROBE);
        store->probe = proto_close(store->probe);
        store->barrier = proto_close(store->barrier);
}

/* A pipe that is kept beside the memory shows that the memory is kept. */
static void begin_check(Store *store, int arena_fd) {
        store->begun_usec = proto_now_usec();
        if (!passed_send_arena(arena_fd))
                return;
        store->probe = send_pipe(PASSED_TEXT(PASSED_PROBE));
        store->barrier = send_pipe("BARRIER=1");
        if (store->probe < 0 || store->barrier < 0)
                end_check(store);
}

/*
 * In a full store the place of a client's pidfd is the memory's. Which pidfds are in there is not known: the
 * store may have been too small for some.
 */
static void oust_clients(Store *store, const Clients *clients) {
        const ClientWatch *client = clients->first;
        uint32_t n = 0;

        for (uint32_t i = 0; client && i < store->n_ousted; i++)
                client = client->next;
        for (; client && n < OUST_MAX; client = client->next, store->n_ousted++) {
                if (!client->is_hidden || client->pidfd < 0)
                        continue;
                kept_remove(client->mark);
                (void) passed_send_arena(clients->pool->arena.fd);
                kept_add(client->mark, client->pidfd);
                n++;
        }
        if (!client)
                store->n_ousted = 0;
}

static void tell_state(const Store *store, bool is_full) {
        if (is_full && store->state == STORE_ROOM)
                log_fields(
                        LOG_WARNING, (LogFields){ .message = MESSAGE_NOT_KEPT },
                        "systemd keeps no further descriptor, and perhaps not the memory of the pool, which is then "
                        "lost when the daemon ends: raise FileDescriptorStoreMax= of the unit, then 'systemctl "
                        "daemon-reload'");
        else if (!is_full && store->state == STORE_FULL)
                log_line(LOG_NOTICE, "systemd keeps the memory of the pool");
}

void store_tick(Store *store, const Clients *clients) {
        bool is_full;

        if (store->barrier < 0) {
                if (store->begun_usec == 0 || proto_now_usec() - store->begun_usec >= CHECK_USEC)
                        begin_check(store, clients->pool->arena.fd);
                return;
        }
        if (!is_closed_by_systemd(store->barrier))
                return; /* it has not read the messages yet */
        is_full = is_closed_by_systemd(store->probe);
        end_check(store);
        if (is_full)
                oust_clients(store, clients);
        tell_state(store, is_full);
        store->state = is_full ? STORE_FULL : STORE_ROOM;
}

void store_check_soon(Store *store) {
        store->begun_usec = 0;
}

void store_deinit(Store *store) {
        if (store->barrier >= 0)
                end_check(store);
}
