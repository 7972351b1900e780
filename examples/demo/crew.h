#pragma once
/* The workers, as their parent sees them: started, given periods to serve, and reported when they die. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "examples/demo/demo-options.h"
#include "examples/demo/timeline.h"
#include "examples/demo/worker.h"

typedef struct CrewMember {
        pid_t pid;
        int fd; /* -1: it is no more */
        bool busy;
} CrewMember;

typedef struct Crew {
        const Timeline *timeline;
        WorkerShared *shared;
        size_t shared_size;
        uint32_t n, n_alive;
        CrewMember members[WORKERS_MAX];
} Crew;

/* Forks the workers, which share so many bytes of pages. Negative errno. */
int crew_start(Crew *crew, const Timeline *timeline, uint32_t n, uint64_t pages_limit);
/* Ends the workers and waits for them. */
void crew_stop(Crew *crew);

/*
 * Has a period served to its end by all workers that live, and calls `on_tick` now and then. One that
 * dies is told of, and the others go on. -EINTR: interrupted; -ECHILD: none is left.
 */
int crew_serve(Crew *crew, const WorkerOrder *order, void (*on_tick)(void *), void *userdata);

/* How many requests were taken so far, in this period and before. */
uint64_t crew_taken(const Crew *crew, uint32_t period);
/* The sum of all workers' counters. Between periods. */
void crew_sum(const Crew *crew, WorkerStats *ret);
