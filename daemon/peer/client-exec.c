/*
 * Clients whose process executes another program now
 *
 * A process keeps its number and its start time when it executes a program, and its pidfd stays silent. Its
 * mappings are gone, so nobody uses its records any more, and they have to be released. Two things tell of it:
 *
 *   1. A program that attaches sends a number that is another one after each exec (libclient/connection.c).
 *      Clients of this process with another number are of an earlier program. The message counts only if its
 *      sender is the process of the connection: a forked child may write to that and execute a program itself.
 *   2. A program that never attaches is found by /proc/PID/maps, where the daemon may read that. Its connection
 *      was closed at the exec, so only clients without one are looked at. A client is ended when two looks in
 *      a row, the second begun after the first one ended, did not find the arena.
 *
 * A process that uses the arena is not taken for one of the second kind:
 *
 *   - One that is about to map the arena has not entered, so its entry is COMES; see shm/arena/client.h. A reader does
 *     not enter, but holds nothing, and loses no more than its line among the clients.
 *   - One that closes the pool maps the arena elsewhere before it blanks the old place, and its records are
 *     back, and its entry LEFT, when it unmaps the last. A single look, which goes from low addresses to high
 *     ones, can miss both places; the second look finds the new one.
 *   - A child that was forked has the mappings, and an entry of its own.
 *   - /proc/PID/maps is empty when the first thread of a process has ended, though others go on: a list without
 *     any line says nothing. The same holds for a list that cannot be read.
 *   - The number may be another process's by now: the pidfd tells, after the look.
 *
 * The kernel takes a lock of the other process for a look, and threads of that process can hold it as long as
 * they like. A child of the daemon looks: it is killed after LOOK_USEC_MAX, and with the daemon.
 */
#include "daemon/peer/client-exec.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"

#define LOOKS_MAX 4U /* at a time, and begun each second */
#define LOOK_USEC_MAX (5 * PROTO_USEC_PER_SEC)
#define LOOK_AGAIN_USEC                                                                                      \
        (30 * PROTO_USEC_PER_SEC) /* at one that was found to map the arena, or could not be seen */

/* What a look comes to: the exit status of the child. */
typedef enum Look { LOOK_UNKNOWN, LOOK_MAPPED, LOOK_UNMAPPED } Look;

void client_exec_end_others(Manager *manager, pid_t pid, uint64_t program) {
        ClientWatch *next;

        for (ClientWatch *client = manager->clients; client; client = next) {
                next = client->next;
                if (client->pid == pid && client->program != 0 && client->program != program &&
                    !client->dead && !client->unwatched && client_watch_lives(client))
                        client_watch_end(client, "executed another program");
        }
}

/* ---- in the child */

static bool is_arena(const char *line, const struct stat *arena) {
        unsigned major_id, minor_id;
        uintmax_t inode;

        return sscanf(line, "%*x-%*x %*s %*x %x:%x %ju", &major_id, &minor_id, &inode) == 3 &&
               makedev(major_id, minor_id) == arena->st_dev && inode == arena->st_ino;
}

static Look look(pid_t pid, const struct stat *arena) {
        char path[32], *line = NULL;
        Look found = LOOK_UNKNOWN;
        size_t size = 0;
        FILE *maps;

        (void) snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
        maps = fopen(path, "re");
        if (!maps)
                return LOOK_UNKNOWN;
        while (found != LOOK_MAPPED && getline(&line, &size, maps) > 0)
                found = is_arena(line, arena) ? LOOK_MAPPED : LOOK_UNMAPPED;
        if (found == LOOK_UNMAPPED && ferror(maps))
                found = LOOK_UNKNOWN;
        free(line);
        (void) fclose(maps);
        return found;
}

static _Noreturn void look_and_exit(pid_t pid, const struct stat *arena, pid_t parent) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(LOOK_UNKNOWN);
        (void) syscall(SYS_close_range, STDERR_FILENO + 1, ~0U,
                       0); /* or connections would outlive the daemon's */
        _exit((int) look(pid, arena));
}

/* ---- in the daemon */

static bool is_away(const ClientWatch *client) {
        return !client->session && !client->dead && !client->unwatched;
}

static bool has_mapped(const ClientWatch *client) {
        ShmClientInfo info;

        return shm_client_get(&client->manager->pool.arena, client->index, &info) == 0 &&
               info.state == SHM_CLIENT_USED;
}

static void conclude(ClientWatch *client, Look found) {
        bool again = client->unmapped;

        client->look_usec = proto_now_usec();
        client->unmapped = found == LOOK_UNMAPPED && is_away(client) && client_watch_lives(client);
        if (client->unmapped && again)
                client_watch_end(client, "does not map the pool any more");
        else if (!client->unmapped)
                client->look_usec += LOOK_AGAIN_USEC;
}

static int on_look(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        ClientWatch *client = userdata;
        int status = 0;

        (void) waitpid(client->look_pid, &status, 0);
        client->look_pid = 0;
        client_exec_stop(client);
        conclude(client, WIFEXITED(status) ? (Look) WEXITSTATUS(status) : LOOK_UNKNOWN);
        return 0;
}

static void start_look(ClientWatch *client) {
        pid_t parent = getpid();
        struct stat arena;
        int fd;

        client->look_usec = proto_now_usec();
        if (!has_mapped(client)) {
                conclude(client, LOOK_UNKNOWN);
                return;
        }
        if (fstat(client->manager->pool.arena.fd, &arena) < 0)
                return;
        client->look_pid = fork();
        if (client->look_pid == 0)
                look_and_exit(client->pid, &arena, parent);
        if (client->look_pid < 0) {
                client->look_pid = 0;
                return;
        }
        fd = (int) syscall(SYS_pidfd_open, client->look_pid, 0);
        if (fd < 0 ||
            sd_event_add_io(client->manager->pool.event, &client->look, fd, EPOLLIN, on_look, client) < 0 ||
            sd_event_source_set_io_fd_own(client->look, true) < 0) {
                (void) proto_close(fd);
                client_exec_stop(client);
        }
}

void client_exec_stop(ClientWatch *client) {
        client->look = sd_event_source_disable_unref(client->look);
        if (client->look_pid == 0)
                return;
        (void) kill(client->look_pid, SIGKILL);
        (void) waitpid(client->look_pid, NULL, 0);
        client->look_pid = 0;
}

/* The candidate that was not looked at for the longest time, of those that are due. */
static ClientWatch *next_candidate(const Manager *manager, uint64_t now) {
        ClientWatch *found = NULL;

        for (ClientWatch *client = manager->clients; client; client = client->next)
                if (client->look_pid == 0 && client->look_usec < (found ? found->look_usec : now) &&
                    is_away(client))
                        found = client;
        return found;
}

void client_exec_tick(Manager *manager) {
        uint64_t now = proto_now_usec();
        ClientWatch *client;
        unsigned n = 0;

        for (client = manager->clients; client; client = client->next) {
                if (client->look_pid != 0 && now - client->look_usec > LOOK_USEC_MAX)
                        (void) kill(client->look_pid, SIGKILL); /* on_look() hears of it */
                n += client->look_pid != 0;
        }
        while (n++ < LOOKS_MAX && (client = next_candidate(manager, now)))
                start_look(client);
}
