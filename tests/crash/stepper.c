#include "tests/crash/stepper.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "tests/crash/crash-processor.h"
#include "tests/util/test.h"

#define WORDS_MAX 16U /* a library's frame has fewer */
#define INSTRUCTIONS_MAX 20000000U
#define INSTRUCTION_SYSCALL 0x050f
#define INSTRUCTION_TRAP 0xcc
#define CALL_STOP (SIGTRAP | 0x80)

static uintptr_t peek_register(const Stepper *stepper, size_t offset) {
        return (uintptr_t) ptrace(PTRACE_PEEKUSER, stepper->pid, (void *) offset, NULL);
}

static uintptr_t instruction(const Stepper *stepper) {
        return peek_register(stepper, offsetof(struct user_regs_struct, rip));
}

static bool has(StepperText text, uintptr_t at) {
        return at >= text.begin && at < text.end;
}

static bool is_wait(long call) {
        return call == SYS_epoll_wait || call == SYS_epoll_pwait || call == SYS_epoll_pwait2;
}

/* ---- beginning and end */

static void find_texts(Stepper *stepper) {
        char line[512], path[32], *at;
        StepperText text;
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int) stepper->pid);
        maps = fopen(path, "re");
        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps)) {
                text.begin = strtoul(line, &at, 16);
                text.end = strtoul(at + 1, &at, 16);
                if (!strstr(at, "r-xp"))
                        continue;
                if (strstr(at, "/tslabd\n"))
                        stepper->program = text;
                else if (strstr(at, "/libsystemd."))
                        stepper->loop = text;
        }
        fclose(maps);
        assert_true(stepper->program.end > 0);
}

void stepper_attach(Stepper *stepper, pid_t pid, bool whole) {
        int status;

        *stepper = (Stepper){ .pid = pid, .whole = whole };
        find_texts(stepper);
        assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD), 0);
        assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
        processor_share(pid);
}

static void poke_return(const Stepper *stepper, long code) {
        assert_int_equal(ptrace(PTRACE_POKETEXT, stepper->pid, (void *) stepper->return_at, (void *) code),
                         0);
}

void stepper_detach(Stepper *stepper) {
        if (stepper->return_at != 0)
                poke_return(stepper, stepper->return_code);
        processor_share_end(stepper->pid);
        assert_int_equal(ptrace(PTRACE_DETACH, stepper->pid, NULL, NULL), 0);
}

/* ---- other libraries */

/*
 * At its first instruction the return address is on top of the stack. Where the daemon was found waiting in
 * epoll_wait(), it is above what the C library of a program with threads keeps there.
 */
static void enter_library(Stepper *stepper) {
        uintptr_t stack = peek_register(stepper, offsetof(struct user_regs_struct, rsp));

        for (unsigned i = 0; i < WORDS_MAX; i++) {
                stepper->return_at = (uintptr_t) ptrace(PTRACE_PEEKDATA, stepper->pid,
                                                        (void *) (stack + i * sizeof(stack)), NULL);
                if (has(stepper->program, stepper->return_at) || has(stepper->loop, stepper->return_at))
                        break;
        }
        assert_true(has(stepper->program, stepper->return_at) || has(stepper->loop, stepper->return_at));
        stepper->return_code = ptrace(PTRACE_PEEKTEXT, stepper->pid, (void *) stepper->return_at, NULL);
        poke_return(stepper, (stepper->return_code & ~0xffL) | INSTRUCTION_TRAP);
}

static void leave_library(Stepper *stepper) {
        struct user_regs_struct regs;

        assert_int_equal(ptrace(PTRACE_GETREGS, stepper->pid, NULL, &regs), 0);
        assert_true(regs.rip == stepper->return_at + 1);
        poke_return(stepper, stepper->return_code);
        regs.rip = stepper->return_at;
        assert_int_equal(ptrace(PTRACE_SETREGS, stepper->pid, NULL, &regs), 0);
        stepper->at = stepper->return_at;
        stepper->return_at = 0;
}

static int run(const Stepper *stepper, int request) {
        int status;

        assert_int_equal(ptrace(request, stepper->pid, NULL, NULL), 0);
        assert_int_equal(waitpid(stepper->pid, &status, 0), stepper->pid);
        assert_true(WIFSTOPPED(status));
        return WSTOPSIG(status);
}

/* Until it returns, or waits. */
static void run_library(Stepper *stepper) {
        while (run(stepper, PTRACE_SYSCALL) == CALL_STOP) {
                stepper->in_call = !stepper->in_call;
                stepper->idle =
                        stepper->in_call &&
                        is_wait((long) peek_register(stepper, offsetof(struct user_regs_struct, orig_rax)));
                if (stepper->idle)
                        return;
        }
        leave_library(stepper);
}

/* ---- steps */

void stepper_step(Stepper *stepper) {
        if (stepper->return_at != 0) {
                run_library(stepper);
                return;
        }
        assert_int_equal(run(stepper, PTRACE_SINGLESTEP), SIGTRAP);
        assert_true(++stepper->n_instructions < INSTRUCTIONS_MAX);
        if (stepper->whole)
                return;
        stepper->at = instruction(stepper);
        if (!has(stepper->program, stepper->at) && !has(stepper->loop, stepper->at)) {
                enter_library(stepper);
                run_library(stepper);
        }
}

bool stepper_is_in_program(const Stepper *stepper) {
        return stepper->whole || (stepper->return_at == 0 && has(stepper->program, stepper->at));
}

bool stepper_is_idle(const Stepper *stepper) {
        struct user_regs_struct regs;

        if (!stepper->whole)
                return stepper->idle;
        assert_int_equal(ptrace(PTRACE_GETREGS, stepper->pid, NULL, &regs), 0);
        return is_wait((long) regs.rax) && (ptrace(PTRACE_PEEKTEXT, stepper->pid, (void *) regs.rip, NULL) &
                                            0xffff) == INSTRUCTION_SYSCALL;
}
