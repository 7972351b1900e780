#include "daemon/peer/client-watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/peer/kept.h"
#include "shm/arena/clock.h"
#include "shm/epoch/epoch-open.h"
#include "shm/keeper/reap.h"

/* The largest number of wakes that the loop serves in WAKES_USEC, so that a flood of them cannot stop it. */
#define WAKES_MAX 8
#define WAKES_USEC 10000

unsigned clients_count(const Clients *clients) {
        unsigned n = 0;

        for (const ClientWatch *client = clients->first; client; client = client->next)
                n++;
        return n;
}

uint32_t clients_count_of(const Clients *clients, uid_t uid) {
        uint32_t n_held = 0;

        for (const ClientWatch *client = clients->first; client; client = client->next)
                n_held += client->uid == uid;
        return n_held;
}

bool clients_allow(const Clients *clients, uid_t uid) {
        return share_allows_client(&clients->pool->arena, clients_count(clients),
                                   clients_count_of(clients, uid));
}

void clients_clear(Clients *clients) {
        while (clients->first)
                (void) client_watch_free(clients->first);
}

uint32_t client_watch_count_records(const ClientWatch *client) {
        const ShmArena *arena = &client->clients->pool->arena;
        uint32_t n = 0;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                n += owner.state != SHM_RECORD_UNUSED && owner.client == client->index;
        }
        return n;
}

/* The client had leased n epochs, which are revoked now. */
static void revoke_leases(const ClientWatch *client, uint32_t n) {
        if (n == 0)
                return;
        log_client(LOG_INFO, (LogFields){ .client = &client->index, .pid = client->pid },
                   "%u epochs that client %u, %s, leased are revoked", n, client->index,
                   log_process(client->pid).text);
        maintainer_rescan(client->clients->maintainer);
}

static void remove_client(ClientWatch *client, const char *kind, const char *message, const char *text) {
        Pool *pool = client->clients->pool;

        revoke_leases(client, shm_epoch_end_leases(&pool->arena, client->index));
        shm_client_remove(&pool->arena, client->index);
        if (client->is_hidden)
                kept_remove(client->mark);
        log_client(LOG_INFO, (LogFields){ .message = message, .client = &client->index, .pid = client->pid },
                   "client %u, %s, %s", client->index, log_process(client->pid).text, text);
        events_send(pool, &(EventInfo){ .kind = kind, .client = client->index, .pid = client->pid ?: -1 },
                    "client %u, %s, %s", client->index, log_process(client->pid).text, text);
        (void) client_watch_free(client);
}

/* All records of the client went back, or were repaired. */
static void end_repaired_client(ClientWatch *client, const char *how) {
        char text[64];

        if (client->dead) {
                client->clients->n_unrepaired--;
                remove_client(client, "leave", MESSAGE_LEAVE, "is repaired");
                return;
        }
        (void) snprintf(text, sizeof(text), "%s; it left nothing to repair", how);
        remove_client(client, "death", MESSAGE_LEAVE, text);
}

void client_watch_end(ClientWatch *client, const char *how) {
        const char *format = "client %u, %s, %s; the records of %u of its threads are to be repaired";
        Clients *clients = client->clients;
        uint32_t n_left, n_leases;

        if (client->session)
                client->session->client = NULL;
        client->session = NULL;
        shm_client_end(&clients->pool->arena,
                       client->index); /* first, so that a next daemon goes on from here */
        n_left = shm_reap_process(&clients->pool->arena, client->index, &n_leases);
        revoke_leases(client, n_leases);
        if (n_left == 0) {
                end_repaired_client(client, how);
                return;
        }
        if (client->dead)
                return; /* some of its slots are still in flight */
        maps_scan_stop(&client->scan);
        client->dead = true;
        clients->n_unrepaired++;
        client->death = sd_event_source_disable_unref(client->death);
        client->wake = sd_event_source_disable_unref(client->wake);
        log_client(LOG_INFO,
                   (LogFields){ .message = MESSAGE_DEATH, .client = &client->index, .pid = client->pid },
                   format, client->index, log_process(client->pid).text, how, n_left);
        events_send(clients->pool,
                    &(EventInfo){ .kind = "death", .client = client->index, .pid = client->pid ?: -1 },
                    format, client->index, log_process(client->pid).text, how, n_left);
        maintainer_repair(clients->maintainer);
}

static int on_client_death(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        client_watch_end(userdata, "died");
        return 0;
}

/*
 * The daemon never reads the eventfd: the client has the same file description, and might make it blocking and read it
 * first. Edge-triggered, each write shows without a read.
 */
static int on_client_wake(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        const Clients *clients = ((ClientWatch *) userdata)->clients;

        clients->on_wake(clients->userdata);
        return 0;
}

void client_watch_keep(ClientWatch *client) {
        int r = kept_add(client->mark, client->pidfd);

        client->unkept = r < 0;
        if (r < 0 && r != -EAGAIN) /* which notify_send() has told */
                log_error(
                        LOG_WARNING, r,
                        "could not store the descriptor of a client in systemd; trying again. Until then, after a "
                        "restart its death shows only once it has connected again");
}

static int add_entry(ClientWatch *client) {
        const Session *session = client->session;
        ShmClientInfo info = {
                .pid = client->is_hidden ? 0 : client->pid,
                .start_time = client->mark,
                .uid = session->peer.uid,
                .gid = session->peer.gid,
                .state = session->role >= PROTO_ROLE_WRITER ? SHM_CLIENT_COMES : SHM_CLIENT_USED,
                .role = session->role,
                .program = client->program,
                .attached_usec = shm_now_usec(),
        };
        int r;

        memcpy(info.comm, session->comm, sizeof(info.comm));
        if (client->is_hidden)
                client_watch_keep(client);
        r = shm_client_add(&client->clients->pool->arena, &info);
        if (r < 0 && client->is_hidden)
                kept_remove(client->mark);
        client->index = info.index;
        return r;
}

bool client_watch_is_of(const ClientWatch *client, const Identity *identity) {
        if (client->is_hidden != (identity->pid == 0))
                return false;
        if (!client->is_hidden)
                return client->pid == identity->pid;
        return client->mark == identity->mark && client->is_lasting && identity->is_lasting;
}

bool client_watch_lives(const ClientWatch *client) {
        struct pollfd p = { .fd = client->pidfd, .events = POLLIN };

        return poll(&p, 1, 0) <=
               0; /* an error, such as no memory, tells nothing: then the client counts as alive */
}

int client_watch_death(ClientWatch *client) {
        int r = sd_event_add_io(client->clients->pool->event, &client->death, client->pidfd, EPOLLIN,
                                on_client_death, client);

        return r < 0 ? r : 0;
}

int client_watch_wakes(ClientWatch *client) {
        int r;

        client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (client->wake_fd < 0)
                return -errno;
        r = sd_event_add_io(client->clients->pool->event, &client->wake, client->wake_fd, EPOLLIN | EPOLLET,
                            on_client_wake, client);
        if (r >= 0)
                r = sd_event_source_set_ratelimit(client->wake, WAKES_USEC, WAKES_MAX);
        if (r >= 0)
                return 0;
        client->wake = sd_event_source_disable_unref(client->wake);
        client->wake_fd = proto_close(
                client->wake_fd); /* or the next attach would believe that the eventfd is watched */
        return r;
}

int client_watch_new(ClientWatch **ret_client, Clients *clients, Session *session, Identity *identity,
                     uint64_t program) {
        ClientWatch *client = malloc(sizeof(*client));
        int r;

        if (!client)
                return -ENOMEM;
        *client = (ClientWatch){
                .clients = clients,
                .next = clients->first,
                .pid = session->peer.pid,
                .uid = session->peer.uid,
                .mark = identity->mark,
                .is_hidden = identity->pid == 0,
                .is_lasting = identity->is_lasting,
                .program = program,
                .role = session->role,
                .session = session,
                .pidfd = identity->pidfd,
                .wake_fd = -1,
        };
        if (client->next)
                client->next->previous = client;
        clients->first = client;

        r = client_watch_death(client);
        if (r == 0 && session->role >= PROTO_ROLE_WRITER)
                r = client_watch_wakes(client);
        if (r == 0)
                r = add_entry(client);
        if (r < 0) {
                client->pidfd = -1; /* the caller's */
                (void) client_watch_free(client);
                return r;
        }
        identity->pidfd = -1;
        session->client = client;
        *ret_client = client;
        return 0;
}

ClientWatch *client_watch_free(ClientWatch *client) {
        if (!client)
                return NULL;
        maps_scan_stop(&client->scan);
        if (client->session)
                client->session->client = NULL;
        if (client->unwatched)
                client->clients->n_unwatched--;
        if (client->next)
                client->next->previous = client->previous;
        if (client->previous)
                client->previous->next = client->next;
        else
                client->clients->first = client->next;
        (void) sd_event_source_disable_unref(client->death);
        (void) sd_event_source_disable_unref(client->wake);
        (void) proto_close(client->pidfd);
        (void) proto_close(client->wake_fd);
        free(client);
        return NULL;
}

/* A writer that has entered, and has no record yet, may be about to take one: it sets LEFT when it leaves. */
static bool may_client_return(const ClientWatch *client) {
        ShmClientInfo info;

        return client->role >= PROTO_ROLE_WRITER &&
               shm_client_get(&client->clients->pool->arena, client->index, &info) == 0 &&
               info.state == SHM_CLIENT_USED;
}

static void leave_client(ClientWatch *client) {
        client->hung_up = true;
        if (!client->dead && client_watch_count_records(client) == 0 && !may_client_return(client))
                remove_client(client, "leave", MESSAGE_LEAVE, "left");
}

void client_watch_forget_session(Session *session) {
        session->client->session = NULL;
        session->client = NULL;
}

void client_watch_hang_up(Session *session) {
        ClientWatch *client = session->client;

        client_watch_forget_session(session);
        leave_client(client);
}

/* The process closed the pool while it had no connection. */
static bool has_client_left(const ClientWatch *client) {
        ShmClientInfo info;

        return shm_client_get(&client->clients->pool->arena, client->index, &info) == 0 &&
               info.state == SHM_CLIENT_LEFT;
}

bool client_watch_remove(ClientWatch *client, uint32_t n_records) {
        if (n_records > 0)
                return false;
        if (client->dead) {
                end_repaired_client(client, "died");
                return true;
        }
        if (client->session || (!client->hung_up && !has_client_left(client)) || may_client_return(client))
                return false;
        remove_client(client, "leave", MESSAGE_LEAVE, "left");
        return true;
}
