#pragma once
/*
 * Moments of a traced operation, with a real daemon. Between two moments that follow each other no other process could
 * see a difference. There is a moment before each system call, one after it, and one after each write to the arena's
 * metadata.
 *
 *      walk_begin(&walk, &trace, &arena, &daemon);
 *      while (walk_next(&walk) && !is_there(&walk.moment))
 *              ;
 *      ...
 *      walk_end(&walk);
 *
 * The child's mapping of the metadata is read-only meanwhile, so that each write shows; the tracer lets it through. The
 * daemon is stopped, except during calls that wait for it. So it does no work of its own in between, and the same
 * operation has the same moments each time.
 */
#include <sys/types.h>

#include "tests/crash/crash-trace.h"
#include "tests/util/daemon-fixture.h"

/* Counted, as instructions are not the same ones each time. */
typedef struct Moment {
        unsigned n_calls; /* begun, and over */
        unsigned n_writes; /* since */
} Moment;

typedef struct Walk {
        Trace *trace;
        const ShmArena *arena;
        const DaemonFixture *daemon;
        Moment moment; /* where it is */
        bool in_call;
        long call; /* that began last */
        ino_t inode; /* the arena's */
        size_t size; /* its watched memory's */
} Walk;

/* The child stands in front of the operation, and the daemon is held. */
void walk_begin(Walk *walk, Trace *trace, const ShmArena *arena, const DaemonFixture *daemon);
/* To the next moment; false: the operation is over. */
bool walk_next(Walk *walk);
/* No moments any more: nothing is watched. The daemon is not held. */
void walk_end(Walk *walk);

/*
 * After walk_begin(), instead of all that: to the end an instruction at a time, with a look at the metadata
 * after each. How many instructions; ret_missed: how many changed it, and were not found to write to it.
 */
unsigned walk_step_through(Walk *walk, unsigned *ret_missed);
