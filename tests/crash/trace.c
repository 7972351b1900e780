#include "tests/crash/trace.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/test.h"

#define CHILD_SECONDS 600

TraceShared *trace_shared_new(void) {
        TraceShared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(shared, MAP_FAILED);
        return shared;
}

static void wait_for_stop(pid_t pid) {
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
}

static void run(TraceShared *shared, World *world, const Operation *operation) {
        alarm(CHILD_SECONDS);
        if (operation->enter && operation->enter(world) != 0)
                _exit(1);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(1);
        raise(SIGSTOP);
        shared->inside = 1;
        shared->result = operation->run(world);
        shared->inside = 2;
        for (;;)
                raise(SIGSTOP);
}

void trace_start(Trace *trace, World *world, const Operation *operation) {
        trace->shared->inside = 0;
        trace->shared->result = -1;
        trace->pid = fork();
        assert_true(trace->pid >= 0);
        if (trace->pid == 0)
                run(trace->shared, world, operation);
        wait_for_stop(trace->pid);
}

bool trace_step(Trace *trace) {
        do {
                assert_int_equal(ptrace(PTRACE_SINGLESTEP, trace->pid, NULL, NULL), 0);
                wait_for_stop(trace->pid);
        } while (trace->shared->inside == 0);
        return trace->shared->inside == 1;
}

void trace_finish(Trace *trace) {
        assert_int_equal(ptrace(PTRACE_CONT, trace->pid, NULL, NULL), 0);
        wait_for_stop(trace->pid);
        assert_int_equal(trace->shared->inside, 2);
}

void trace_kill(Trace *trace) {
        kill(trace->pid, SIGKILL);
        assert_int_equal(waitpid(trace->pid, NULL, 0), trace->pid);
}
