#include "daemon/peer/client-resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"

#define DESCRIPTORS_SPARE 32U /* kept for processes that connect */

/* The kernel gives out the lowest free descriptor. */
static bool is_spare_descriptor(int fd) {
        struct rlimit limit;

        return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t) fd + DESCRIPTORS_SPARE >= limit.rlim_cur;
}

/* -ESRCH: the process has ended; its number may be another process's by now. */
static int reopen_pidfd(ClientWatch *client, bool spares) {
        uint32_t start_time;
        int r;

        client->pidfd = (int) syscall(SYS_pidfd_open, client->pid, 0);
        if (client->pidfd < 0)
                return errno == ESRCH || errno == EINVAL ? -ESRCH : -errno;
        if (spares && is_spare_descriptor(client->pidfd))
                return -EMFILE;
        r = shm_process_start_time(client->pid, &start_time);
        if (r < 0)
                return r;
        return start_time == client->start_time ? 0 : -ESRCH;
}

/*
 * 1: the client is watched. 0: its process has ended, and the client was freed or is being repaired. Negative errno:
 * it cannot be watched. With `spares`, leaves some descriptors for processes that connect.
 */
static int rewatch_client(ClientWatch *client, bool spares) {
        int r = reopen_pidfd(client, spares);

        if (r == 0)
                r = client_watch_death(client);
        if (r < 0)
                client->pidfd = proto_close(client->pidfd);
        if (r < 0 && r != -ESRCH)
                return r;
        if (client->unwatched)
                client->clients->n_unwatched--;
        client->unwatched = false;
        if (r == 0)
                return 1;
        client_watch_end(client, "died");
        return 0;
}

/* The lowest role, if the entry was left half written by a killed daemon, or was overwritten. */
static uint32_t shown_role(const ShmClientInfo *info) {
        return proto_role_to_string(info->role) ? info->role : PROTO_ROLE_READER;
}

/* A client that does not use the library may never enter, but then it has a record. */
static bool is_client_absent(const ClientWatch *client, const ShmClientInfo *info) {
        return info->state == SHM_CLIENT_COMES && client_watch_count_records(client) == 0 &&
               shm_client_give_up(&client->clients->pool->arena, client->index);
}

int client_resume(Clients *clients, const ShmClientInfo *info) {
        ClientWatch *client = malloc(sizeof(*client));
        int r;

        if (!client)
                return -ENOMEM;
        *client = (ClientWatch){
                .clients = clients,
                .next = clients->first,
                .index = info->index,
                .pid = info->pid,
                .uid = info->uid,
                .start_time = info->start_time,
                .program = info->program,
                .role = shown_role(info),
                .hung_up = info->state == SHM_CLIENT_LEFT,
                .pidfd = -1,
                .wake_fd = -1,
        };
        if (client->next)
                client->next->previous = client;
        clients->first = client;

        if (info->state == SHM_CLIENT_DEAD || is_client_absent(client, info)) {
                client_watch_end(client, info->state == SHM_CLIENT_DEAD ? "had ended" : "did not attach");
                return 0;
        }
        r = rewatch_client(client, true);
        if (r >= 0)
                return r;
        client->unwatched = true;
        if (clients->n_unwatched++ == 0)
                log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_UNWATCHED, .pid = client->pid },
                           "process %d, and maybe others, cannot be watched: %s. They count as alive, and "
                           "tslabd tries again each second",
                           (int) client->pid, strerror(-r));
        return 1;
}

int client_resume_rewatch(Clients *clients, pid_t pid) {
        ClientWatch *next;
        int r = 0, q;

        if (clients->n_unwatched == 0)
                return 0;
        for (ClientWatch *client = clients->first; client; client = next) {
                next = client->next;
                if (!client->unwatched || (pid != 0 && client->pid != pid))
                        continue;
                q = rewatch_client(client, pid == 0); /* outside MIN(), which evaluates it twice */
                r = MIN(r, q);
        }
        if (clients->n_unwatched == 0)
                log_line(LOG_NOTICE, "all clients of pool %s are watched now", clients->pool->options->pool);
        return r;
}

/*
 * While the process of the entry lives, no other process has its number, so a connection of that number belongs to the
 * process itself. But a forked child may have the same connection open and write to it: only a message that the
 * process itself sent counts.
 */
int client_resume_session(ClientWatch **ret, Clients *clients, Session *session, uint32_t entry,
                          pid_t sender) {
        ClientWatch *client;
        int r;

        if (entry == 0)
                return 0;
        r = client_resume_rewatch(clients, session->peer.pid);
        if (r < 0)
                return r;
        client = clients->first;
        while (client && client->index != entry - 1)
                client = client->next;
        if (!client || client->pid != session->peer.pid || client->pid != sender || client->dead ||
            !client_watch_lives(client))
                return session->role >= PROTO_ROLE_WRITER ? -EUCLEAN : 0;
        if (client->wake_fd < 0 && session->role >= PROTO_ROLE_WRITER) {
                r = client_watch_wakes(client);
                if (r < 0)
                        return r;
        }
        if (client->session)
                client->session->client = NULL;
        client->role = session->role;
        shm_client_set_role(&clients->pool->arena, client->index, client->role);
        client->uid = session->peer.uid; /* the arena may hold the user of the entry's last owner, or none */
        client->hung_up = false;
        client->session = session;
        session->client = client;
        *ret = client;
        return 1;
}
