#pragma once
/*
 * A worker: a process that serves requests. Workers know nothing of each other; they share the pool and,
 * here, the place of the next request and each worker's counters.
 */
#include <stdint.h>

#include "examples/demo/demo-histogram.h"
#include "examples/demo/timeline.h"

/* Counts of one worker, which alone writes them; the parent reads them while the worker waits or is dead. */
typedef struct WorkerStats {
        uint64_t n_requests;
        uint64_t n_sessions; /* that it started */
        uint64_t n_returning; /* the part of these whose client had one before, which expired */
        uint64_t n_others; /* requests to sessions that another worker wrote last */
        uint64_t n_retries; /* somebody else was faster */
        uint64_t n_pages; /* requests for pages that can be cached */
        uint64_t n_pages_hit; /* the part of these whose page was in the cache */
        Histogram latency; /* times of requests without their pages, in ns */
} WorkerStats;

/* In memory that parent and workers have in common. */
typedef struct WorkerShared {
        uint64_t pages_limit; /* limit of the map of pages, which whoever comes first creates */
        _Alignas(64) _Atomic uint64_t next; /* index of the first of timeline.requests[] that nobody took */
        _Alignas(64) WorkerStats workers[];
} WorkerShared;

/* Between parent and worker, one datagram each: serve this period; it is served. */
typedef struct WorkerOrder {
        uint32_t period;
        uint32_t epoch; /* for the sessions of that period */
        uint32_t pages_epoch;
} WorkerOrder;

typedef struct WorkerReply {
        uint32_t period;
        int32_t error; /* negative errno; the worker then ends */
} WorkerReply;

/* Serves until the other end of `fd` is closed: the exit code. */
int worker_run(uint32_t id, int fd, const Timeline *timeline, WorkerShared *shared);
