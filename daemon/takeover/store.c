#include "daemon/takeover/store.h"

#include <errno.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/notify.h"
#include "daemon/peer/kept.h"
#include "daemon/takeover/passed.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"

#define CHECK_USEC (30 * PROTO_USEC_PER_SEC)
#define CLIENTS_MAX 32U /* in one turn: systemd has to read up to three messages for each */
/* Not at each check: systemd logs a line for each descriptor that it refuses. */
#define OUST_AGAIN_USEC (3600 * PROTO_USEC_PER_SEC)

/* False: systemd is gone. That closes the pipes that it had not read, too. */
static bool end_check(Store *store) {
        int r = passed_remove(PASSED_PROBE);

        store->probe = proto_close(store->probe);
        store->barrier = proto_close(store->barrier);
        return r > 0 || r == -EAGAIN;
}

/* A pipe that is kept beside the memory shows that the memory is kept. */
static void begin_check(Store *store, int arena_fd) {
        store->begun_usec = proto_now_usec();
        if (!passed_send_arena(arena_fd))
                return;
        store->probe = notify_send_pipe(PASSED_TEXT(PASSED_PROBE));
        store->barrier = notify_send_pipe("BARRIER=1");
        if (store->probe < 0 || store->barrier < 0)
                (void) end_check(store);
}

static int oust_client(const ClientWatch *client) {
        kept_remove(client->mark);
        (void) passed_send_arena(client->clients->pool->arena.fd);
        return kept_add(client->mark, client->pidfd);
}

static int return_client(const ClientWatch *client) {
        return kept_add(client->mark, client->pidfd);
}

static void mark_all_unkept(const Clients *clients) {
        for (ClientWatch *client = clients->first; client; client = client->next)
                client->unkept = client->is_hidden;
}

/* Goes on with the clients whose pidfds systemd may not have. False: there is none. */
static bool visit_unkept(const Clients *clients, int (*visit)(const ClientWatch *client)) {
        unsigned n = 0;

        for (ClientWatch *client = clients->first; client && n < CLIENTS_MAX; client = client->next) {
                if (!client->unkept || client->pidfd < 0)
                        continue;
                client->unkept = visit(client) < 0;
                n++;
        }
        return n > 0;
}

/*
 * In a full store the place of a client's pidfd is the memory's. Which pidfds are in there is not known: the store may
 * have been too small for some. So all clients have their turn, and then none for a while.
 */
static void oust_clients(Store *store, const Clients *clients) {
        uint64_t now = proto_now_usec();

        if (visit_unkept(clients, oust_client) || now < store->oust_usec)
                return;
        store->oust_usec = now + OUST_AGAIN_USEC;
        mark_all_unkept(clients);
        (void) visit_unkept(clients, oust_client);
}

static void set_state(Store *store, const Clients *clients, bool is_full) {
        bool was_full = store->state == STORE_FULL;

        store->state = is_full ? STORE_FULL : STORE_ROOM;
        if (is_full == was_full)
                return;
        store->oust_usec = proto_now_usec() + OUST_AGAIN_USEC;
        mark_all_unkept(clients);
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

        if (store->state != STORE_FULL)
                (void) visit_unkept(clients, return_client);
        if (store->barrier < 0) {
                if (store->begun_usec == 0 || proto_now_usec() - store->begun_usec >= CHECK_USEC)
                        begin_check(store, clients->pool->arena.fd);
                return;
        }
        if (!notify_pipe_is_closed(store->barrier, 0))
                return; /* it has not read the messages yet */
        is_full = notify_pipe_is_closed(store->probe, 0);
        if (!end_check(store))
                return;
        tell_state(store, is_full);
        set_state(store, clients, is_full);
        if (is_full)
                oust_clients(store, clients);
}

void store_check_soon(Store *store) {
        store->begun_usec = 0;
        store->oust_usec = 0;
}

void store_deinit(Store *store) {
        if (store->barrier >= 0)
                (void) end_check(store);
}
