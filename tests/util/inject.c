/*
 * For LD_PRELOAD: makes system calls of a program fail, from main() to exit().
 *
 *      TSLAB_INJECT=count:FILE                 counts all calls by number, in FILE: 512 words of 32 bits
 *      TSLAB_INJECT=NUMBER:FIRST:N:ERROR       call NUMBER fails with ERROR from the FIRST time on, N times
 *
 * A filter (seccomp) raises SIGSYS in place of the calls, and the handler makes them, or lets them fail. Nothing traces
 * the program, so LeakSanitizer works. Forks go on with the same counts: a child's calls count with its parent's.
 *
 * A handler cannot make calls that create a thread or a process: if these are to fail, they always fail. A close() that
 * fails has closed the descriptor, as in Linux, and EPOLL_CTL_DEL has removed it; a brk() that fails returns the end of
 * the heap. An fstat() fails with EIO, since no permission concerns it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "shm/arch/atomic.h"

#define N_CALLS 512U
#define MASK_SIZE 8 /* in the kernel; the C library has a larger one */

extern const char inject_after_call[];

static struct {
        uint32_t *counts; /* shared with children */
        long nr;
        uint32_t first, n;
        int error; /* 0: all calls are made, and counted */
        bool stopped;
} inject;

/* The filter lets the call at inject_after_call pass. */
__attribute__((noinline)) static long make_call(long nr, const greg_t *r) {
        register long r10 __asm__("r10") = (long) r[REG_R10];
        register long r8 __asm__("r8") = (long) r[REG_R8];
        register long r9 __asm__("r9") = (long) r[REG_R9];
        long result;

        __asm__ volatile("syscall\n"
                         ".globl inject_after_call\n"
                         ".hidden inject_after_call\n"
                         "inject_after_call:"
                         : "=a"(result)
                         : "a"(nr), "D"(r[REG_RDI]), "S"(r[REG_RSI]), "d"(r[REG_RDX]), "r"(r10), "r"(r8),
                           "r"(r9)
                         : "rcx", "r11", "memory");
        return result;
}

static uint32_t count_call(long nr) {
        if (inject.stopped)
                return 0;
        return nr < (long) N_CALLS ? shm_add_rlx(&inject.counts[nr], 1) + 1 : 0; /* ORDER: rlx; a count. */
}

static bool must_fail(long nr) {
        uint32_t i = count_call(nr);

        return inject.error != 0 && nr == inject.nr && i > 0 && i >= inject.first &&
               i - inject.first < inject.n;
}

/* The handler has set the mask of the program, which returning from it would undo. SIGSYS is never blocked. */
static void keep_mask(ucontext_t *context) {
        greg_t r[NGREG] = { [REG_RDX] = (greg_t) (uintptr_t) &context->uc_sigmask, [REG_R10] = MASK_SIZE };

        (void) make_call(SYS_rt_sigprocmask, r);
        (void) sigdelset(&context->uc_sigmask, SIGSYS);
}

static void on_call(int signal, siginfo_t *info, void *userdata) {
        ucontext_t *context = userdata;
        greg_t *r = context->uc_mcontext.gregs;
        long nr = info->si_syscall, result = -inject.error;
        int saved = errno;
        bool is_failed = must_fail(nr);

        (void) signal;
        if (!is_failed)
                result = make_call(nr, r);
        else if (nr == SYS_close || (nr == SYS_epoll_ctl && r[REG_RSI] == EPOLL_CTL_DEL))
                (void) make_call(nr, r);
        else if (nr == SYS_brk)
                result = make_call(nr, (greg_t[NGREG]){});
        else if (nr == SYS_newfstatat && (r[REG_R10] & AT_EMPTY_PATH))
                result = -EIO;
        if (nr == SYS_rt_sigprocmask && !is_failed)
                keep_mask(context);
        r[REG_RAX] = result;
        errno = saved;
}

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IP_LOW offsetof(struct seccomp_data, instruction_pointer)
#define IF_IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* All calls, but for those that a handler cannot make. */
static const long unmade[] = { SYS_clone,  SYS_clone3, SYS_fork,       SYS_vfork,
                               SYS_execve, SYS_exit,   SYS_exit_group, SYS_rt_sigreturn };

static bool is_unmade(long nr) {
        for (size_t i = 0; i < sizeof(unmade) / sizeof(unmade[0]); i++)
                if (unmade[i] == nr)
                        return true;
        return false;
}

static int load_filter(struct sock_filter *code, size_t n) {
        struct sock_fprog program = { .len = (unsigned short) n, .filter = code };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -1;
        return (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int load_failing(void) {
        struct sock_filter code[] = {
                LOAD(nr),
                IF_IS((uint32_t) inject.nr, 0, 1),
                RETURN(SECCOMP_RET_ERRNO | (uint32_t) inject.error),
                RETURN(SECCOMP_RET_ALLOW),
        };

        return load_filter(code, sizeof(code) / sizeof(code[0]));
}

/* Program: calls at inject_after_call pass; others of this number, or all others, are trapped. */
static int load_trapping(void) {
        uint64_t after = (uint64_t) (uintptr_t) inject_after_call;
        struct sock_filter code[64] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP_LOW),
                IF_IS((uint32_t) after, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP_LOW + 4),
                IF_IS((uint32_t) (after >> 32), 0, 1),
                RETURN(SECCOMP_RET_ALLOW),
                LOAD(nr),
        };
        size_t n = 6;

        if (inject.error != 0) {
                code[n++] = (struct sock_filter) IF_IS(SYS_rt_sigprocmask, 1, 0);
                code[n++] = (struct sock_filter) IF_IS((uint32_t) inject.nr, 0, 1);
                code[n++] = (struct sock_filter) RETURN(SECCOMP_RET_TRAP);
                code[n++] = (struct sock_filter) RETURN(SECCOMP_RET_ALLOW);
                return load_filter(code, n);
        }
        for (size_t i = 0; i < sizeof(unmade) / sizeof(unmade[0]); i++) {
                code[n++] = (struct sock_filter) IF_IS((uint32_t) unmade[i], 0, 1);
                code[n++] = (struct sock_filter) RETURN(SECCOMP_RET_ALLOW);
        }
        code[n++] = (struct sock_filter) RETURN(SECCOMP_RET_TRAP);
        return load_filter(code, n);
}

static void fail(const char *what) {
        fprintf(stderr, "inject: %s\n", what);
        _exit(1);
}

static void open_counts(const char *path) {
        size_t size = N_CALLS * sizeof(*inject.counts);
        int fd = *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
        int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;

        if (*path && (fd < 0 || ftruncate(fd, (off_t) size) < 0))
                fail(path);
        inject.counts = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
        if (inject.counts == MAP_FAILED)
                fail("no memory");
        if (fd >= 0)
                (void) close(fd);
}

/* Before LeakSanitizer does its work, with calls of its own. */
static void stop(void) {
        inject.stopped = true;
}

__attribute__((constructor)) static void start(void) {
        struct sigaction action = { .sa_sigaction = on_call,
                                    .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };
        const char *order = getenv("TSLAB_INJECT");
        char path[4096] = "";

        if (!order)
                return;
        if (sscanf(order, "count:%4095s", path) != 1 &&
            sscanf(order, "%ld:%u:%u:%d", &inject.nr, &inject.first, &inject.n, &inject.error) != 4)
                fail(order);
        open_counts(path);
        (void) atexit(stop);
        if (inject.error != 0 && is_unmade(inject.nr)) {
                if (load_failing() < 0)
                        fail("no filter");
                return;
        }
        if (sigaction(SIGSYS, &action, NULL) < 0 || load_trapping() < 0)
                fail("no filter");
}
