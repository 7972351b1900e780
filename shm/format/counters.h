#pragma once

/*
 * The counters of threads, one row each. From the rows come the counters of a record, the fields of the daemon's reply
 * and of tslab_stats(), and the numbers of tslabctl with its metrics and its manual page. tests/lint/counters.py writes
 * fields of new rows into proto/tslab.proto, <tslab.h>, and the structs of Python and Rust.
 *
 *      X(NAME, field, whole, help)
 *
 * whole: the field of which this one counts a part, as text; "": none. A counter that ends in _MAX is no sum, but the
 * largest size of the requests that the counter of its name counts.
 */

#define SHM_COUNTERS(X)                                                                                      \
        X(ALLOCS_UNCACHED, allocs, "", "Objects allocated")                                                  \
        X(FREES_UNCACHED, frees, "", "Objects freed")                                                        \
        X(ALLOC_HITS, alloc_hits, "allocs", "Allocations that a cache served")                               \
        X(FREES_CACHED, frees_cached, "frees", "Frees that a cache took in")                                 \
        X(REFILLS, refills, "allocs", "Times that an empty cache was filled from a slab")                    \
        X(FLUSHES, flushes, "frees", "Times that half of a full cache was emptied")                          \
        X(ALLOC_BYPASSED, alloc_bypassed, "allocs",                                                          \
          "Allocations that went past a cache because it did not pay")                                       \
        X(FREE_BYPASSED, free_bypassed, "frees", "Frees that went past a cache because it did not pay")      \
        X(BYPASS_WINDOWS, bypass_windows, "", "Times that a cache began to be bypassed")                     \
        X(SLABS_TAKEN, slabs_taken, "", "Free slabs that came into use")                                     \
        X(SLABS_RECYCLED, slabs_recycled, "", "Slabs that drained and served anew")                          \
        X(SLABS_COMMITTED, slabs_committed, "", "Slabs that threads gave memory to, not the daemon")         \
        X(STALE, frees_stale, "", "Frees of a stale handle, which were refused")                             \
        X(FAILURES, failures, SHM_COUNTERS_ATTEMPTS, "Allocations that failed for lack of memory")           \
        X(FLUSHED_SLOTS, flushed_slots, "", "Free slots that went from caches to their slabs")               \
        X(REFILLED_SLOTS, refilled_slots, "", "Free slots that went from slabs to caches")                   \
        X(TOO_LARGE, too_large, SHM_COUNTERS_ATTEMPTS,                                                       \
          "Allocations that were refused because no size class is large enough")                             \
        X(VALUES_TOO_LARGE, values_too_large, "",                                                            \
          "Values of maps that were refused because they are too large")                                     \
        X(TOO_LARGE_MAX, too_large_bytes, "", "Largest allocation that was refused so")                      \
        X(VALUES_TOO_LARGE_MAX, values_too_large_bytes, "",                                                  \
          "Largest value that was refused so, with its key and head")                                        \
        X(FAILURES_LIMIT, failures_limit, "failures",                                                        \
          "Allocations that failed because the memory limit of a control group was reached")                 \
        X(FAILURES_SYSTEM, failures_system, "failures",                                                      \
          "Allocations that failed because the system had no memory; others found the pool full")            \
        X(SLABS_FILLED, slabs_filled, "", "Slabs whose last free slot was taken")                            \
        X(SLABS_REOPENED, slabs_reopened, "", "Full slabs that have free slots again")

/* A whole that is no counter: allocations, and those that failed so. */
#define SHM_COUNTERS_ATTEMPTS "attempts"

#define SHM_COUNTERS_ENUM(_name, _field, _whole, _help) SHM_COUNT_##_name,

typedef enum ShmCounter {
        SHM_COUNTERS(SHM_COUNTERS_ENUM) SHM_COUNTERS_N,
        SHM_COUNTERS_MAX = 32,
} ShmCounter;

#undef SHM_COUNTERS_ENUM

#define SHM_COUNTER_IS_MAX(_counter)                                                                         \
        ((_counter) == SHM_COUNT_TOO_LARGE_MAX || (_counter) == SHM_COUNT_VALUES_TOO_LARGE_MAX)
