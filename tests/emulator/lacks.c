/*
 * The things that an emulator of one process does not do as a kernel does: prints the name of each that is lacking, a
 * line each. The list of tests that are left out names its reasons so; './dev cross' compiles and asks this first. An
 * emulator that has learned a thing gets the tests that were left out for it.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 65536

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Runs in a child, whose end tells the result. */
static bool child_says(bool (*look)(void)) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(look() ? 0 : 1);
        return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A program that starts itself anew by /proc is the same program. */
static bool start_again(void) {
        (void) execv("/proc/self/exe", (char *[]){ "lacks", "again", NULL });
        return false;
}

static bool has_exec(void) {
        return child_says(start_again);
}

static bool same_link(const char *name, pid_t pid) {
        char path[64], own[4096], other[4096];
        ssize_t n, m;

        (void) snprintf(path, sizeof(path), "/proc/self/%s", name);
        n = readlink(path, own, sizeof(own));
        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        m = readlink(path, other, sizeof(other));
        return n > 0 && n == m && memcmp(own, other, (size_t) n) == 0;
}

/* Others see the program that a process executes, not the emulator. */
static bool has_exe(void) {
        pid_t pid = fork();
        bool same;

        if (pid == 0)
                for (;;)
                        pause();
        same = pid > 0 && same_link("exe", pid);
        if (pid > 0) {
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
        }
        return same;
}

/* The 22nd number of a process's or a thread's state, which follows its name in brackets; 0: it cannot be seen. */
static uint64_t start_time(const char *path) {
        char text[1024], *field;
        FILE *f = fopen(path, "re");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

        if (f)
                (void) fclose(f);
        text[n] = 0;
        field = strrchr(text, ')');
        for (int i = 2; field && i < 22; i++)
                field = strchr(field + 1, ' ');
        return field ? strtoull(field, NULL, 10) : 0;
}

/* Also its own, which the emulator makes up; others see the kernel's. */
static bool has_start_time(void) {
        char path[64];
        uint64_t own = start_time("/proc/self/stat");

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int) getpid());
        return own > 0 && own == start_time(path);
}

/* Shared memory that is not written yet. */
static void *shared(int *ret_fd) {
        void *p;

        *ret_fd = memfd_create("lacks", MFD_CLOEXEC);
        if (*ret_fd < 0 || ftruncate(*ret_fd, SIZE) < 0)
                return NULL;
        p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
        return p == MAP_FAILED ? NULL : p;
}

static int64_t blocks(int fd) {
        struct stat st;

        return fstat(fd, &st) < 0 ? -1 : st.st_blocks;
}

static bool has_remove(void) {
        int fd;
        void *p = shared(&fd);

        if (p)
                memset(p, 1, SIZE);
        return p && madvise(p, SIZE, MADV_REMOVE) == 0 && blocks(fd) == 0;
}

static bool has_populate(void) {
        int fd;
        void *p = shared(&fd);

        return p && madvise(p, SIZE, MADV_POPULATE_WRITE) == 0 && blocks(fd) > 0;
}

/* A number of KiB that a file of /proc has behind a name: the sum of all, where it has several. */
static uint64_t sum_of(const char *path, const char *name) {
        FILE *f = fopen(path, "re");
        uint64_t sum = 0;
        char line[512];

        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, name, strlen(name)) == 0)
                        sum += strtoull(line + strlen(name), NULL, 10);
        if (f)
                (void) fclose(f);
        return sum;
}

/* Pages of shared memory become a huge one where the kernel is asked. */
static bool has_huge(void) {
        size_t huge = (size_t) 2 << 20;
        int fd = memfd_create("lacks", MFD_CLOEXEC);
        uint8_t *room = mmap(NULL, 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint8_t *at = room + (huge - (uintptr_t) room % huge) % huge;

        if (fd < 0 || room == MAP_FAILED || ftruncate(fd, (off_t) huge) < 0 ||
            mmap(at, huge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
                return false;
        memset(at, 1, huge);
        return madvise(at, huge, MADV_COLLAPSE) == 0 &&
               sum_of("/proc/self/smaps", "ShmemPmdMapped:") >= huge >> 10;
}

/* Threads that come and go leave nothing: the anonymous memory of the process is the program's own. */
static void *end_at_once(void *userdata) {
        return userdata;
}

static bool has_anon(void) {
        uint64_t before = 0;

        for (int i = 0; i < 200; i++) {
                int fd = memfd_create("lacks", MFD_CLOEXEC);
                pthread_t thread;
                void *p;

                if (fd < 0 || ftruncate(fd, 1 << 24) < 0)
                        return false;
                p = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (p == MAP_FAILED || pthread_create(&thread, NULL, end_at_once, NULL) != 0)
                        return false;
                (void) pthread_join(thread, NULL);
                (void) munmap(p, 1 << 24);
                (void) close(fd);
                if (i == 20)
                        before = sum_of("/proc/self/status", "RssAnon:");
        }
        return before > 0 && sum_of("/proc/self/status", "RssAnon:") < before + 1024;
}

static bool wipe_child(void) {
        uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pid_t pid;
        int status;

        if (p == MAP_FAILED || madvise(p, SIZE, MADV_WIPEONFORK) < 0)
                return false;
        p[0] = 1;
        pid = fork();
        if (pid == 0)
                _exit(p[0]);
        return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool has_wipe(void) {
        return child_says(wipe_child);
}

static bool use_filter(void) {
        struct sock_filter filter[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
        struct sock_fprog program = { 1, filter };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool has_seccomp(void) {
        return child_says(use_filter);
}

static bool trace(void) {
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool has_ptrace(void) {
        return child_says(trace);
}

static bool has_membarrier(void) {
        return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) > 0 &&
               syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
               syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/* Descriptors for which there is no room: the message says so. */
static bool has_ctrunc(void) {
        int fds[2], sent[2] = { 0, 1 };
        char byte = 1;
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(sent))];
        } out = {}, in = {};
        struct iovec iov = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &out, .msg_controllen = sizeof(out)
        };

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return false;
        out.header = (struct cmsghdr){ CMSG_LEN(sizeof(sent)), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&out.header), sent, sizeof(sent));
        if (sendmsg(fds[0], &message, 0) != 1)
                return false;
        message.msg_control = &in;
        message.msg_controllen = CMSG_SPACE(sizeof(int)) - 4;
        return recvmsg(fds[1], &message, 0) == 1 && (message.msg_flags & MSG_CTRUNC);
}

/* A mapping that is larger than the limit is refused. */
static bool limit(void) {
        struct rlimit l = { 256 << 20, 256 << 20 };

        return setrlimit(RLIMIT_AS, &l) == 0 &&
               mmap(NULL, (size_t) 1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static bool has_limit(void) {
        return child_says(limit);
}

static bool leave_time(void) {
        return unshare(CLONE_NEWTIME) == 0;
}

static bool has_time_namespace(void) {
        return child_says(leave_time);
}

static bool has_close_range(void) {
        return syscall(SYS_close_range, 1000, 1001, 0) == 0;
}

static bool has_pidfd(void) {
        return syscall(SYS_pidfd_open, getpid(), 0) >= 0;
}

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                bool (*has)(void);
        } things[] = {
                { "exec", has_exec },
                { "exe", has_exe },
                { "start-time", has_start_time },
                { "remove", has_remove },
                { "populate", has_populate },
                { "huge", has_huge },
                { "anon", has_anon },
                { "wipe", has_wipe },
                { "seccomp", has_seccomp },
                { "ptrace", has_ptrace },
                { "membarrier", has_membarrier },
                { "ctrunc", has_ctrunc },
                { "limit", has_limit },
                { "time-namespace", has_time_namespace },
                { "close-range", has_close_range },
                { "pidfd", has_pidfd },
        };

        if (argc > 1)
                return strcmp(argv[1], "again") != 0;
        for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
                if (!things[i].has())
                        puts(things[i].name);
        return EXIT_SUCCESS;
}
