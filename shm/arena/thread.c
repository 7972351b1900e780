/*
 * Threads that ended without a word
 *
 * Purpose: finds records whose thread is no more, in a process that lives.
 *
 * Kernel facts (proc(5)): /proc/PID/task/TID is there for as long as the thread is; the first thread of
 *   a process that ended before the others is a zombie. A directory that is open stays the one process's.
 *   Numbers are those of the pid namespace of /proc; NSpid: says in how many a process is. To tgkill(2)
 *   they are the caller's own; it finds zombies, too.
 *
 * Invariants
 *   1. A thread that is not there owns no record: its own, if the head still says so, is nobody's. One
 *      compare-and-set of the whole head, as it was read before the thread was looked for, marks it.
 *   2. Records of a process (thread number 0) are no thread's.
 *   3. Where numbers may mean something else here, nothing is marked.
 *
 * Who may do what: control work. The process itself may take such a record over (shm_record_inherit()).
 *
 * Crash: a record that is marked DEAD is found by the next repair.
 */
#include "shm/arena/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/arena/record.h"

/* Up to size - 1 bytes, terminated. Negative errno. */
static int read_file(int dir_fd, const char *path, char *buffer, size_t size) {
        int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY), saved;
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, buffer, size - 1);
        saved = errno;
        close(fd);
        if (n < 0)
                return -saved;
        buffer[n] = 0;
        return 0;
}

/* Whether the process is of the pid namespace whose numbers /proc has. */
static bool is_of_our_namespace(int proc_fd) {
        char buffer[4096], *at;

        if (read_file(proc_fd, "status", buffer, sizeof(buffer)))
                return false;
        at = strstr(buffer, "\nNSpid:\t");
        if (!at)
                return false;
        at += strlen("\nNSpid:\t");
        return at[strspn(at, "0123456789")] == '\n';
}

static bool is_gone(int proc_fd, uint32_t tid) {
        char path[32], buffer[512], *at;
        int r;

        snprintf(path, sizeof(path), "task/%u/stat", tid);
        r = read_file(proc_fd, path, buffer, sizeof(buffer));
        if (r)
                return r == -ENOENT || r == -ESRCH;
        at = strrchr(buffer, ')');
        return at && at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X');
}

static int open_process(const ShmClientInfo *client) {
        uint32_t start_time;
        char path[32];
        int fd;

        snprintf(path, sizeof(path), "/proc/%d", (int) client->pid);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (client->start_time != 0 && shm_process_start_time(client->pid, &start_time) == 0 &&
            start_time == client->start_time && is_of_our_namespace(fd))
                return fd;
        close(fd);
        return -ESRCH;
}

/* The process whose /proc is open. Its records often stand side by side. */
typedef struct OpenProcess {
        pid_t pid; /* 0: none */
        uint32_t start_time;
        int fd; /* negative: it cannot be seen */
} OpenProcess;

static void close_process(OpenProcess *process) {
        if (process->pid != 0 && process->fd >= 0)
                close(process->fd);
        *process = (OpenProcess){};
}

static void change_process(OpenProcess *process, const ShmClientInfo *client) {
        if (process->pid == client->pid && process->start_time == client->start_time)
                return;
        close_process(process);
        *process = (OpenProcess){ client->pid, client->start_time, open_process(client) };
}

uint32_t shm_threads_mark_gone(ShmArena *arena, uint32_t *position, uint32_t budget) {
        uint32_t n = 0, n_ever = shm_arena_n_records_ever(arena), i = *position;
        OpenProcess process = {};
        ShmClientInfo client;

        for (; i < n_ever && budget > 0; i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state != SHM_RECORD_USED || owner.tid == 0 ||
                    shm_client_get(arena, owner.client, &client) || client.state == SHM_CLIENT_DEAD)
                        continue;
                budget--;
                change_process(&process, &client);
                if (process.fd >= 0 && is_gone(process.fd, owner.tid))
                        n += shm_record_mark_gone(arena, i, owner);
        }
        close_process(&process);
        *position = i < n_ever ? i : arena->n_records;
        return n;
}

/* Of our own process. Only its first thread stays when it has ended, as a zombie. */
static bool is_own_gone(uint32_t tid) {
        int fd;
        bool gone;

        if (syscall(SYS_tgkill, getpid(), tid, 0) < 0)
                return errno == ESRCH;
        if (tid != (uint32_t) getpid())
                return false;
        fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return false;
        gone = is_of_our_namespace(fd) && is_gone(fd, tid);
        close(fd);
        return gone;
}

uint32_t shm_threads_mark_own_gone(ShmArena *arena, uint32_t client) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state == SHM_RECORD_USED && owner.client == client && owner.tid != 0 &&
                    is_own_gone(owner.tid))
                        n += shm_record_mark_gone(arena, i, owner);
        }
        return n;
}
