#pragma once
/*
 * The pool that this daemon serves, and the loop it runs in: the leaf that every other module of the daemon
 * may hold on to. The manager owns it. Everything runs in one thread; long work is cut into slices, which are
 * tasks of one queue: see daemon/task.h.
 */
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/options.h"
#include "daemon/task.h"
#include "shm/arena/record.h"
#include "shm/stats/slab-sums.h"

typedef struct EventInfo EventInfo;

typedef struct Pool {
        Options *options; /* main's; a reload changes them */
        sd_event *event;
        TaskQueue *tasks;
        ShmArena arena;
        ShmActor actor; /* the daemon's own, with record 0: it repairs, commits and punches pages */
        ShmSlabSums sums; /* for all counts of slabs and objects; zeros: a count looks at all slabs */
        uint32_t slice_max; /* upper bound of pool_slice(); tests lower it so that work takes many slices */
        uint64_t started_usec; /* CLOCK_MONOTONIC */
        uint64_t born_usec; /* the same moment by CLOCK_REALTIME, which may be set later */

        /* Takes the events of daemon/events.h to the sessions that watch the pool. NULL: nobody is told. */
        void (*on_event)(void *userdata, const EventInfo *info, const char *text);
        void *event_userdata;
} Pool;

/* No arena yet. */
void pool_init(Pool *pool, Options *options);
/* Makes the loop and the queue of tasks. 0 or a negative errno. */
int pool_open_loop(Pool *pool);
/* All tasks and event sources must be gone before. */
void pool_deinit(Pool *pool);

/* How much one slice may do, of work that is cut into slices of `n`. */
static inline uint32_t pool_slice(const Pool *pool, uint32_t n) {
        return n < pool->slice_max ? n : pool->slice_max;
}
