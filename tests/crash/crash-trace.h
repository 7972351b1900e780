#pragma once
/* A child that goes through one operation while it is traced. */
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tests/crash/crash-world.h"

/* Shared with the child. */
typedef struct TraceShared {
        volatile int inside; /* 1: in the operation, 2: past it */
        volatile int result; /* its own */
        volatile int go_on; /* past the operation it need not stand still */
} TraceShared;

typedef struct Trace {
        TraceShared *shared;
        pid_t pid;
        pid_t tid; /* the traced thread's */
} Trace;

TraceShared *trace_shared_new(void);

/* Starts a child, which stands still in front of the operation. */
void trace_start(Trace *trace, World *world, const Operation *operation);
/* One instruction; false: the operation is over. */
bool trace_step(Trace *trace);
/* Whether the next instruction is a system call, and which. */
bool trace_at_call(const Trace *trace, long *ret_number);
/*
 * At full speed to where a system call begins or is over, or a signal comes, which the child does not get:
 * its number. False: the operation is over.
 */
bool trace_run(Trace *trace, int *ret_signal);
#define TRACE_CALL (SIGTRAP | 0x80)
/* At such a stop: which call, and the address that the signal is about. */
long trace_call_number(const Trace *trace);
uintptr_t trace_fault_address(const Trace *trace);
/* Runs one instruction, and returns SIGTRAP, or the signal that it brought. */
int trace_try(Trace *trace);
/* Has the child make a system call here; not where one begins. */
long trace_inject(Trace *trace, long number, uint64_t a, uint64_t b, uint64_t c);
/* The rest of the operation, at full speed. */
void trace_finish(Trace *trace);
/* After that, lets the child end by itself: its exit status, or the negative signal that ended it. */
int trace_end(Trace *trace);
void trace_kill(Trace *trace);
/* The same, but the process is not waited for, and stays a zombie. */
void trace_kill_unreaped(Trace *trace);
void trace_reap(const Trace *trace);
