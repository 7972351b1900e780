/*
 * Threads that ended silently
 *
 * Purpose: finds records whose thread has ended while its process lives on.
 *
 * Kernel facts (proc(5)): /proc/PID/task/TID exists for as long as the thread does. If the first thread of a
 *   process ends before the others, it stays as a zombie. An open /proc/PID directory refers to the one process,
 *   even if its number is reused. Thread numbers in /proc belong to the pid namespace for which it was mounted;
 *   the line NSpid: lists a process's number in each of its namespaces. tgkill(2) takes numbers of the caller's
 *   namespace, and finds zombies too.
 *
 * Invariants
 *   1. A thread that does not exist owns no record. The head is read first, then the thread is looked for, then one
 *      compare-and-set of the whole head marks the record: it fails if the record has got another owner.
 *   2. A record with thread number 0 belongs to a process as a whole, and is left alone.
 *   3. Where thread numbers may belong to another namespace, no record is marked.
 *
 * Who may do what: the maintainer marks records. The process itself may take one over (shm_record_inherit()).
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

/* Reads up to size - 1 bytes, and terminates them. 0 or a negative errno. */
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

/* Whether the process is in the pid namespace whose numbers /proc shows. */
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

/* The process whose /proc directory is open. It is kept open since records of one process are often neighbours. */
typedef struct OpenProcess {
        pid_t pid; /* 0: none */
        uint32_t start_time;
        int fd; /* negative: the process cannot be seen */
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

/* Whether a thread of our own process has ended. tgkill() tells, except for the first thread, which stays a zombie. */
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
