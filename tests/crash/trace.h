#pragma once
/* A child that goes through one operation while it is traced. */
#include <stdbool.h>
#include <sys/types.h>

#include "tests/crash/world.h"

/* Shared with the child. */
typedef struct TraceShared {
        volatile int inside; /* 1: in the operation, 2: past it */
        volatile int result; /* its own */
} TraceShared;

typedef struct Trace {
        TraceShared *shared;
        pid_t pid;
} Trace;

TraceShared *trace_shared_new(void);

/* Starts a child, which stands still in front of the operation. */
void trace_start(Trace *trace, World *world, const Operation *operation);
/* One instruction; false: the operation is over. */
bool trace_step(Trace *trace);
/* The rest of the operation, at full speed. */
void trace_finish(Trace *trace);
void trace_kill(Trace *trace);
