#pragma once
/*
 * A workload's input and output. This header includes the other headers of the harness: a workload
 * includes nothing else.
 *
 * A program runs one workload once, and prints one JSON object. bench/run repeats programs, alternates
 * between allocators, and computes medians and intervals over runs.
 */
#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "bench/harness/clock.h"
#include "bench/harness/group.h"
#include "bench/harness/histogram.h"
#include "bench/harness/memory.h"
#include "shm/arch/atomic.h"

#define bench_likely(x) __builtin_expect(!!(x), 1)
#define bench_unlikely(x) __builtin_expect(!!(x), 0)

/* A throughput workload divides its operations into so many rounds, and reports their median. */
#define BENCH_ROUNDS 21

typedef struct Options {
        const char *workload;
        const char *pool; /* a daemon's pool; NULL: a private one */
        const char *policy; /* for workloads that have several; NULL: their own */
        const char *cache; /* on, off or adaptive; NULL: the library's default */
        uint32_t size; /* bytes of an object */
        uint32_t n_clients, n_threads; /* beside the clients and threads that measure */
        uint64_t fill; /* bytes of objects beside the measured ones */
        bool restart; /* the daemon is replaced during the workload */
        uint32_t n_members; /* 0: the workload's own number */
        uint64_t n_live; /* objects that a churn keeps; 0: the workload's own number */
        uint64_t n_ops; /* 0: the workload's own number */
        double scale; /* factor for the workload's own number of operations */
} Options;

typedef struct Bench {
        Options options;
        Clock clock;
        json_object *metrics;
        json_object *series; /* name: [[x, y], ...] */
        uint32_t n_members;
        bool processes; /* members are processes */
        bool tight; /* room for the objects asked for and few more */
        bool not_applicable; /* the workload needs something that this allocator lacks */
} Bench;

/* The option if it is given, otherwise the workload's own number times --scale; at least `least`. */
uint64_t bench_n_ops(const Bench *bench, uint64_t own, uint64_t least);
uint64_t bench_n_live(const Bench *bench, uint64_t own);
uint32_t bench_n_members(Bench *bench, uint32_t own);

void bench_metric(Bench *bench, const char *name, double value);
void bench_point(Bench *bench, const char *series, double x, double y);
/*
 * Reports n, mean, mean of the fastest 99 %, p50 to p99.99 and max in nanoseconds, without the timer's own
 * time; names begin with `prefix`. And the distribution, as series PREFIX_cdf: nanoseconds, and the share
 * of operations that took no longer.
 */
void bench_latencies(Bench *bench, const char *prefix, const Histogram *h);

double bench_median(double *values, uint32_t n); /* sorts them */

/*
 * Every allocator's objects are touched alike: the first 8 bytes are written and read back. The compiler
 * can predict neither the value read nor that nobody else sees the object.
 */
static inline void bench_touch(void *object, uint64_t value) {
        *(volatile uint64_t *) object = value;
        if (bench_unlikely(*(volatile uint64_t *) object != value))
                bench_fail("an object does not hold what was written to it");
        __asm__ volatile("" : "+r"(object) : : "memory");
}
