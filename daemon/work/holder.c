#include "daemon/work/holder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"
#include "proto/text.h"
#include "shm/arena/client.h"

#define PATH_SIZE 96
#define LOCK_USEC PROTO_USEC_PER_SEC /* for which a start waits for the lock */

static void close_dir(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

static bool read_proc(const char *path, char *ret, size_t size) {
        _cleanup_(proto_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

        ret[n > 0 ? n : 0] = 0;
        return n > 0;
}

/* The argument of a system call that is the file written to; -1: the call writes to none. */
static int written_argument(long number) {
        switch (number) {
        case SYS_write:
        case SYS_pwrite64:
        case SYS_writev:
        case SYS_pwritev:
        case SYS_pwritev2:
        case SYS_sendfile:
                return 0;
        case SYS_splice:
        case SYS_copy_file_range:
                return 2;
        default:
                return -1;
        }
}

/* Lets the file system of `path` ask no server, which might never answer. */
static bool is_file(const char *path, const struct stat *file) {
        struct statx st;

        return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &st) == 0 && st.stx_ino == file->st_ino &&
               makedev(st.stx_dev_major, st.stx_dev_minor) == file->st_dev;
}

/* "18 0x5 0x7f... ...": the number and the arguments of the call that the thread is in, as /proc tells. */
static bool thread_writes_to(int pid, int tid, const struct stat *arena) {
        char path[PATH_SIZE], text[256], *at;
        unsigned long fd = 0;
        int argument;

        (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
        if (!read_proc(path, text, sizeof(text)) || *text < '0' || *text > '9')
                return false;
        argument = written_argument(strtol(text, &at, 10));
        for (int i = 0; i <= argument; i++)
                fd = strtoul(at, &at, 16);
        (void) snprintf(path, sizeof(path), "/proc/%d/fd/%u", pid, (unsigned) fd);
        return argument >= 0 && is_file(path, arena);
}

/* State D: the thread waits in the kernel, and no signal but SIGKILL, if that, ends it. */
static bool thread_waits(int pid, int tid) {
        char path[PATH_SIZE], text[256], *end;

        (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
        if (!read_proc(path, text, sizeof(text)))
                return false;
        end = strrchr(text, ')'); /* the name before may have any bytes */
        return end && end[1] == ' ' && end[2] == 'D';
}

/* The next number among the names of a directory; 0: no more. */
static int next_number(DIR *dir) {
        struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                if (*entry->d_name >= '1' && *entry->d_name <= '9')
                        return atoi(entry->d_name);
        return 0;
}

static bool any_thread(int pid, const struct stat *arena) {
        char path[PATH_SIZE];
        _cleanup_(close_dir) DIR *dir = NULL;
        int tid;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", pid);
        dir = opendir(path);
        while ((tid = next_number(dir)))
                if (arena ? thread_writes_to(pid, tid, arena) : thread_waits(pid, tid))
                        return true;
        return false;
}

static void describe_process(char *ret, int pid, const char *what) {
        char path[PATH_SIZE], comm[32], clean[32];
        struct stat st = {};

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        (void) read_proc(path, comm, sizeof(comm));
        (void) stat(path, &st);
        comm[strcspn(comm, "\n")] = 0;
        proto_text_clean(clean, sizeof(clean), comm);
        (void) snprintf(ret, HOLDER_TEXT_SIZE, "process %d (%s) of user %u %s", pid, clean,
                        (unsigned) st.st_uid, what);
}

static int find_writing_process(const ShmArena *arena) {
        _cleanup_(close_dir) DIR *dir = opendir("/proc");
        struct stat st;
        int pid;

        if (fstat(arena->fd, &st) < 0)
                return 0;
        while ((pid = next_number(dir)))
                if (any_thread(pid, &st))
                        return pid;
        return 0;
}

static int find_waiting_client(const ShmArena *arena) {
        ShmClientInfo info;

        for (uint32_t i = 0; i < arena->n_records; i++)
                if (shm_client_get(arena, i, &info) == 0 && info.pid > 0 && any_thread((int) info.pid, NULL))
                        return (int) info.pid;
        return 0;
}

void holder_describe(const ShmArena *arena, char ret[HOLDER_TEXT_SIZE]) {
        int pid = find_writing_process(arena);

        if (pid > 0) {
                describe_process(ret, pid, "is inside a write to the pool's memory: end it");
                return;
        }
        pid = find_waiting_client(arena);
        if (pid > 0)
                describe_process(ret, pid, "waits in the kernel, and may be the cause");
        else
                (void) snprintf(
                        ret, HOLDER_TEXT_SIZE,
                        "a process into which the daemon may not look; docs/troubleshooting.md names it");
}

/* A memfd has the lock of its file taken for F_ADD_SEALS, also where that changes nothing. */
static void *take_lock(void *userdata) {
        (void) fcntl((int) (intptr_t) userdata, F_ADD_SEALS, 0);
        return NULL;
}

/* The thread of a trial that fails goes on waiting: no signal ends that. */
static bool try_lock(const ShmArena *arena) {
        uint64_t until = proto_now_usec() + LOCK_USEC;
        struct timespec at = { .tv_sec = (time_t) (until / PROTO_USEC_PER_SEC),
                               .tv_nsec = (long) (until % PROTO_USEC_PER_SEC * 1000) };
        pthread_t thread;

        if (pthread_create(&thread, NULL, take_lock, (void *) (intptr_t) arena->fd) != 0 ||
            pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &at) == 0)
                return true;
        (void) pthread_detach(thread);
        return false;
}

bool holder_leaves_lock(const ShmArena *arena, const char *trouble) {
        char cause[HOLDER_TEXT_SIZE];

        if (try_lock(arena))
                return true;
        holder_describe(arena, cause);
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_PAGE_WAIT }, "%s: %s", trouble, cause);
        return false;
}
