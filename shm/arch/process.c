/*
 * Processes and threads that the arena names
 *
 * Purpose: tells whether they are still the ones that they were.
 *
 * Kernel facts (proc(5)): /proc/PID/task/TID exists for as long as the thread does. If the first thread of a
 *   process ends before the others, it stays as a zombie. An open /proc/PID directory refers to the one process,
 *   even if its number is reused. Thread numbers in /proc belong to the pid namespace for which it was mounted;
 *   the line NSpid: lists a process's number in each of its namespaces. tgkill(2) takes numbers of the caller's
 *   namespace, and finds zombies too. A process that executes a program keeps its number and its start time, but has
 *   other memory: the places of its code and of its stack in the line `stat`, which only the kernel and privileged
 *   processes change. They are 0 or 1 there for a reader who may not see them. Start times are shown by the clock of
 *   the reader's time namespace, whose difference from the clock of the system is in /proc/self/timens_offsets.
 *
 * Invariants
 *   1. Start times are by the clock of the system, so that processes in several time namespaces agree on them. As they
 *      are shown in whole ticks, two readers may differ by one.
 *   2. Where something cannot be seen, the answer is that nothing has ended: a process that is wrongly taken for dead
 *      would lose its objects.
 *
 * Who may do what: any process.
 *
 * Crash: nothing is changed.
 */
#include "shm/arch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC INT64_C(1000000000)

/* Fields after the name, which may have spaces and parentheses: the n-th of proc(5) is FIELD(n). */
#define FIELD(_n) ((_n) -2)

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
                return -saved; /* ESRCH: it ended between open and read */
        buffer[n] = 0;
        return 0;
}

/* The text from a field of a line `stat` on; NULL: there is no such field. */
static const char *find_field(const char *stat, int field) {
        const char *at = strrchr(stat, ')');

        for (int i = 0; at && i < field; i++)
                at = strchr(at + 1, ' ');
        return at;
}

static uint64_t field_number(const char *stat, int field) {
        const char *at = find_field(stat, field);

        return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* By how much the clock of our time namespace is ahead of the system's. -ENOENT: a kernel without such namespaces. */
static int boottime_offset(int64_t *ret_ns) {
        char buffer[256], *at;
        int64_t sec;
        int r;

        *ret_ns = 0;
        r = read_file(AT_FDCWD, "/proc/self/timens_offsets", buffer, sizeof(buffer));
        if (r)
                return r == -ENOENT ? 0 : r;
        at = strstr(buffer, "boottime");
        if (!at)
                return -EIO;
        sec = strtoll(at + strlen("boottime"), &at, 10);
        *ret_ns = sec * NSEC_PER_SEC + strtoll(at, NULL, 10);
        return 0;
}

static int64_t tick_ns(void) {
        return NSEC_PER_SEC / sysconf(_SC_CLK_TCK);
}

/* A tick of the system's clock that is not after the start which a line `stat` shows. */
static int find_start(const char *stat, uint64_t *ret) {
        int64_t ticks = (int64_t) field_number(stat, FIELD(22)), offset;
        int r = boottime_offset(&offset);

        if (r == 0)
                *ret = (uint64_t) (offset == 0 ? ticks : (ticks * tick_ns() - offset) / tick_ns());
        return r;
}

uint64_t shm_process_ticks(void) {
        struct timespec now;
        int64_t offset;

        if (clock_gettime(CLOCK_BOOTTIME, &now) < 0 || boottime_offset(&offset))
                return 0;
        return (uint64_t) ((now.tv_sec * NSEC_PER_SEC + now.tv_nsec - offset) / tick_ns());
}

/* The places of the code's beginning and end, and of the stack. */
static uint64_t program_of(const char *stat) {
        uint64_t stack = field_number(stat, FIELD(28));
        uint64_t number = stack * UINT64_C(0x9e3779b97f4a7c15) ^
                          field_number(stat, FIELD(26)) * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                          field_number(stat, FIELD(27));

        return stack == 0 ? 0 : number | 1;
}

int shm_process_look(pid_t pid, ShmProcess *ret) {
        char path[32], buffer[1024];
        uint64_t start;
        int r;

        if (pid <= 0)
                return -ESRCH;
        snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        r = read_file(AT_FDCWD, path, buffer, sizeof(buffer));
        if (r == -ENOENT || (r == 0 && !find_field(buffer, FIELD(22))))
                return -ESRCH;
        if (r == 0)
                r = find_start(buffer, &start);
        if (r == 0)
                *ret = (ShmProcess){ .start_time = (uint32_t) start, .program = program_of(buffer) };
        return r;
}

int shm_process_start_time(pid_t pid, uint32_t *ret) {
        ShmProcess process;
        int r = shm_process_look(pid, &process);

        if (r == 0)
                *ret = process.start_time;
        return r;
}

static bool is_another(const ShmProcess *is, const ShmProcess *was) {
        return is->start_time - was->start_time + 1 > 2 ||
               (is->program != 0 && was->program != 0 && is->program != was->program);
}

bool shm_process_is_gone(pid_t pid, const ShmProcess *was) {
        struct pollfd p;
        ShmProcess is;
        bool gone;

        if (was->start_time == 0)
                return false;
        p = (struct pollfd){ .fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
        if (p.fd < 0)
                return errno == ESRCH;
        gone = poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
        if (!gone && shm_process_look(pid, &is) == 0)
                gone = is_another(&is, was);
        close(p.fd);
        return gone;
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

int shm_process_open(pid_t pid, uint32_t start_time) {
        ShmProcess process;
        char path[32];
        int fd;

        snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (start_time != 0 && shm_process_look(pid, &process) == 0 &&
            !is_another(&process, &(ShmProcess){ .start_time = start_time }) && is_of_our_namespace(fd))
                return fd;
        close(fd);
        return -ESRCH;
}

/* *ret_state: a letter of proc(5); 0: it cannot be seen. False: there is no such thread. */
static bool look_at_thread(int proc_fd, uint32_t tid, char *ret_state, uint64_t *ret_started) {
        char path[32], buffer[1024];
        const char *at;
        int r;

        *ret_state = 0;
        *ret_started = 0;
        snprintf(path, sizeof(path), "task/%u/stat", tid);
        r = read_file(proc_fd, path, buffer, sizeof(buffer));
        if (r)
                return r != -ENOENT && r != -ESRCH;
        at = find_field(buffer, FIELD(3));
        if (!at)
                return true;
        *ret_state = at[1];
        if (find_start(buffer, ret_started))
                *ret_started = 0;
        return true;
}

bool shm_thread_has_ended(int proc_fd, uint32_t tid, uint64_t *ret_started) {
        char state;

        return !look_at_thread(proc_fd, tid, &state, ret_started) || state == 'Z' || state == 'X';
}

bool shm_thread_is_stopped(int proc_fd, uint32_t tid) {
        uint64_t started;
        char state;

        return look_at_thread(proc_fd, tid, &state, &started) && (state == 'T' || state == 't');
}

/* tgkill() tells, except for the first thread, which stays a zombie. */
bool shm_own_thread_has_ended(uint32_t tid) {
        uint64_t started;
        bool ended;
        int fd;

        if (syscall(SYS_tgkill, getpid(), tid, 0) < 0)
                return errno == ESRCH;
        if (tid != (uint32_t) getpid())
                return false;
        fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return false;
        ended = is_of_our_namespace(fd) && shm_thread_has_ended(fd, tid, &started);
        close(fd);
        return ended;
}
