#include "tests/crash/crash-trace.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/crash/crash-processor.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define CHILD_SECONDS 600
#define INSTRUCTION_SYSCALL 0x050f

TraceShared *trace_shared_new(void) {
        TraceShared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(shared, MAP_FAILED);
        return shared;
}

static int wait_for_stop(pid_t pid) {
        int status;

        assert_int_equal(waitpid(pid, &status, __WALL), pid);
        assert_true(WIFSTOPPED(status));
        return WSTOPSIG(status);
}

/* ---- in the child */

typedef struct Child {
        TraceShared *shared;
        World *world;
        const Operation *operation;
        pthread_key_t end;
} Child;

static void begin(const Child *child) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(1);
        raise(SIGSTOP);
        child->shared->inside = 1;
}

static void end(const Child *child) {
        child->shared->inside = 2;
        while (!child->shared->go_on)
                raise(SIGSTOP);
}

/* Keys that were made before have had their turn. */
static void on_thread_end(void *userdata) {
        end(userdata);
}

static void *go_through(void *userdata) {
        Child *child = userdata;

        if (child->operation->where == OPERATION_THREAD_END) {
                child->shared->result = child->operation->run(child->world);
                if (pthread_setspecific(child->end, child) != 0)
                        _exit(1);
                begin(child);
                return NULL;
        }
        begin(child);
        child->shared->result = child->operation->run(child->world);
        end(child);
        return NULL;
}

static void run(TraceShared *shared, World *world, const Operation *operation) {
        Child child = { .shared = shared, .world = world, .operation = operation };
        pthread_t thread;

        end_with_parent();
        alarm(CHILD_SECONDS);
        if (operation->enter && operation->enter(world) != 0)
                _exit(1);
        if (operation->where == OPERATION_PROCESS)
                (void) go_through(&child);
        else if (pthread_key_create(&child.end, on_thread_end) != 0 ||
                 pthread_create(&thread, NULL, go_through, &child) != 0 || pthread_join(thread, NULL) != 0)
                _exit(1);
        _exit(operation->leave ? operation->leave(world) != 0 : 0);
}

/* ---- in the test */

void trace_start(Trace *trace, World *world, const Operation *operation) {
        int status;

        trace->shared->inside = trace->shared->go_on = 0;
        trace->shared->result = -1;
        trace->pid = fork();
        assert_true(trace->pid >= 0);
        if (trace->pid == 0)
                run(trace->shared, world, operation);
        /* Only this tells the thread's id. Other children do not stop, or nobody asks for their stops. */
        trace->tid = waitpid(operation->where == OPERATION_PROCESS ? trace->pid : -1, &status, __WALL);
        assert_true(trace->tid > 0);
        assert_true(WIFSTOPPED(status));
        assert_int_equal(
                ptrace(PTRACE_SETOPTIONS, trace->tid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
        processor_share(trace->tid);
}

int trace_try(Trace *trace) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, trace->tid, NULL, NULL), 0);
        return wait_for_stop(trace->tid);
}

bool trace_step(Trace *trace) {
        do
                (void) trace_try(trace);
        while (trace->shared->inside == 0);
        return trace->shared->inside == 1;
}

static struct user_regs_struct registers(const Trace *trace) {
        struct user_regs_struct regs;

        assert_int_equal(ptrace(PTRACE_GETREGS, trace->tid, NULL, &regs), 0);
        return regs;
}

bool trace_at_call(const Trace *trace, long *ret_number) {
        struct user_regs_struct regs = registers(trace);
        long code = ptrace(PTRACE_PEEKTEXT, trace->tid, (void *) regs.rip, NULL);

        *ret_number = (long) regs.rax;
        return (code & 0xffff) == INSTRUCTION_SYSCALL;
}

bool trace_run(Trace *trace, int *ret_signal) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, trace->tid, NULL, NULL), 0);
        *ret_signal = wait_for_stop(trace->tid);
        return trace->shared->inside == 1;
}

long trace_call_number(const Trace *trace) {
        return (long) registers(trace).orig_rax;
}

uintptr_t trace_fault_address(const Trace *trace) {
        siginfo_t info;

        assert_int_equal(ptrace(PTRACE_GETSIGINFO, trace->tid, NULL, &info), 0);
        return (uintptr_t) info.si_addr;
}

/* Both processes have it in the same place. */
extern const char injected[];
__asm__(".pushsection .text\ninjected: syscall\n.popsection");

long trace_inject(Trace *trace, long number, uint64_t a, uint64_t b, uint64_t c) {
        struct user_regs_struct saved = registers(trace), regs = saved;

        regs.rip = (uintptr_t) injected;
        regs.orig_rax = UINT64_MAX; /* nothing is to be restarted */
        regs.rax = (uint64_t) number;
        regs.rdi = a;
        regs.rsi = b;
        regs.rdx = c;
        assert_int_equal(ptrace(PTRACE_SETREGS, trace->tid, NULL, &regs), 0);
        assert_int_equal(trace_try(trace), SIGTRAP);
        regs = registers(trace);
        assert_int_equal(ptrace(PTRACE_SETREGS, trace->tid, NULL, &saved), 0);
        return (long) regs.rax;
}

void trace_finish(Trace *trace) {
        assert_int_equal(ptrace(PTRACE_CONT, trace->tid, NULL, NULL), 0);
        assert_int_equal(wait_for_stop(trace->tid), SIGSTOP);
        assert_int_equal(trace->shared->inside, 2);
}

int trace_end(Trace *trace) {
        int status;

        trace->shared->go_on = 1;
        processor_share_end(trace->tid);
        assert_int_equal(ptrace(PTRACE_DETACH, trace->tid, NULL, NULL), 0);
        assert_int_equal(waitpid(trace->pid, &status, 0), trace->pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A thread that is traced is waited for apart, and before its process is. */
void trace_kill_unreaped(Trace *trace) {
        siginfo_t info;

        processor_share_end(trace->tid);
        assert_int_equal(kill(trace->pid, SIGKILL), 0);
        if (trace->tid != trace->pid)
                assert_int_equal(waitpid(trace->tid, NULL, __WALL), trace->tid);
        assert_int_equal(waitid(P_PID, (id_t) trace->pid, &info, WEXITED | WNOWAIT), 0);
}

void trace_reap(const Trace *trace) {
        assert_int_equal(waitpid(trace->pid, NULL, 0), trace->pid);
}

void trace_kill(Trace *trace) {
        trace_kill_unreaped(trace);
        trace_reap(trace);
}
