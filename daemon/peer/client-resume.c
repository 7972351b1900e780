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
#include "daemon/peer/kept.h"
#include "shm/arch/process.h"

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
        return start_time == client->mark ? 0 : -ESRCH;
}

/* /proc does not show its process, and its pidfd was not kept. */
static bool must_connect(const ClientWatch *client) {
        return client->is_hidden && client->pidfd < 0;
}

/*
 * 1: the client is watched. 0: its process has ended, and the client was freed or is being repaired. Negative errno:
 * it cannot be watched. With `spares`, leaves some descriptors for processes that connect.
 */
static int rewatch_client(ClientWatch *client, bool spares) {
        int r = 0;

        if (must_connect(client))
                r = -EREMOTE;
        else if (!client->is_hidden)
                r = reopen_pidfd(client, spares);

        if (r == 0)
                r = client_watch_death(client);
        if (r < 0 && !client->is_hidden)
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

static void log_unwatched(const ClientWatch *client, int error) {
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_UNWATCHED, .pid = client->pid },
                   "%s, and maybe others, cannot be watched: %s. They count as alive, and %s",
                   log_process(client->pid).text, strerror(-error),
                   must_connect(client) ? "tslabd watches them once they connect again"
                                        : "tslabd tries again each second");
}

int client_resume(Clients *clients, const ShmClientInfo *info, int pidfd) {
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
                .mark = info->start_time,
                .is_hidden = info->pid == 0,
                .is_lasting = pidfd >= 0 && identity_mark_of(pidfd) != 0,
                .program = info->program,
                .role = shown_role(info),
                .hung_up = info->state == SHM_CLIENT_LEFT,
                .pidfd = info->pid == 0 ? pidfd : -1,
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
                log_unwatched(client, r);
        return 1;
}

static void log_if_all_watched(const Clients *clients) {
        if (clients->n_unwatched == 0)
                log_line(LOG_NOTICE, "all clients of pool %s are watched now", clients->pool->options->pool);
}

int client_resume_rewatch(Clients *clients, pid_t pid) {
        ClientWatch *next;
        int r = 0, q;

        if (clients->n_unwatched == 0)
                return 0;
        for (ClientWatch *client = clients->first; client; client = next) {
                next = client->next;
                if (!client->unwatched || must_connect(client) || (pid != 0 && client->pid != pid))
                        continue;
                q = rewatch_client(client, pid == 0); /* outside MIN(), which evaluates it twice */
                r = MIN(r, q);
        }
        log_if_all_watched(clients);
        return r;
}

/*
 * A kernel before 6.9 gives the process no lasting mark. Then only the number of the program tells two processes that
 * /proc does not show from each other. Every process that has the arena can read it, and so a reader never gets the
 * entry of a writer.
 */
static bool may_be_hidden_client(const ClientWatch *client, const Session *session, const Resumption *from) {
        if (from->identity->is_lasting)
                return client->mark == from->identity->mark;
        return session->role >= client->role && from->program != 0 && client->program == from->program;
}

/*
 * While the process of the entry lives, no other process has its number, so a connection of that number belongs to the
 * process itself. But a forked child may have the same connection open and write to it: only a message that the
 * process itself sent counts. That does not tell a process of another pid namespace from its child.
 */
static bool is_entry_of(const ClientWatch *client, const Session *session, const Resumption *from) {
        if (client->dead || session->peer.pid != from->sender ||
            client->is_hidden != (from->identity->pid == 0))
                return false;
        if (client->is_hidden ? !may_be_hidden_client(client, session, from)
                              : client->pid != from->identity->pid)
                return false;
        return client_watch_lives(client);
}

/* A client whose pidfd was not kept is watched from now on. */
static int watch_hidden_client(ClientWatch *client, Identity *identity) {
        int r;

        if (client->pidfd < 0) {
                client->pidfd = proto_steal_fd(&identity->pidfd);
                client->is_lasting = identity->is_lasting;
                client_watch_keep(client);
        }
        r = client_watch_death(client);
        if (r < 0)
                return r;
        client->unwatched = false;
        client->clients->n_unwatched--;
        log_if_all_watched(client->clients);
        return 0;
}

static ClientWatch *find_client(const Clients *clients, uint32_t index) {
        ClientWatch *client = clients->first;

        while (client && client->index != index)
                client = client->next;
        return client;
}

static void give_session(ClientWatch *client, Session *session) {
        if (client->session)
                client->session->client = NULL;
        client->role = session->role;
        shm_client_set_role(&client->clients->pool->arena, client->index, client->role);
        client->pid = session->peer.pid;
        client->uid = session->peer.uid; /* the arena may hold the user of the entry's last owner, or none */
        client->hung_up = false;
        client->session = session;
        session->client = client;
}

int client_resume_session(ClientWatch **ret, Clients *clients, Session *session, const Resumption *from) {
        ClientWatch *client;
        int r = 0;

        if (from->entry == 0)
                return 0;
        if (from->identity->pid != 0)
                r = client_resume_rewatch(clients, from->identity->pid);
        if (r < 0)
                return r;
        client = find_client(clients, from->entry - 1);
        if (!client || !is_entry_of(client, session, from))
                return session->role >= PROTO_ROLE_WRITER ? -EUCLEAN : 0;
        if (client->unwatched)
                r = watch_hidden_client(client, from->identity);
        if (r == 0 && client->wake_fd < 0 && session->role >= PROTO_ROLE_WRITER)
                r = client_watch_wakes(client);
        if (r < 0)
                return r;
        give_session(client, session);
        *ret = client;
        return 1;
}
