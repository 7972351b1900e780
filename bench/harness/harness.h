#pragma once
/*
 * What a workload is given, and where it puts what it measured. Includes the other headers of the
 * harness: a workload includes nothing else.
 *
 * A program runs one workload once, and prints one JSON object. Repeating, alternating between
 * allocators, medians and intervals over runs are bench/run's.
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

#define BENCH_ROUNDS 21 /* that a throughput workload divides its operations into; their median counts */

typedef struct Options {
        const char *workload;
        const char *pool; /* of a daemon; NULL: a private one */
        const char *policy; /* of workloads that have several; NULL: their own */
        const char *cache; /* on, off or adaptive; NULL: the library's default */
        uint32_t size; /* of an object */
        uint32_t n_clients, n_threads; /* beside those that measure */
        uint64_t fill; /* bytes of objects beside those that are measured */
        bool restart; /* of the daemon, while we look on */
        uint32_t n_members; /* 0: the workload's own number */
        uint64_t n_live; /* objects that a churn keeps; 0: the workload's own number */
        uint64_t n_ops; /* 0: the workload's own number */
        double scale; /* of that number */
} Options;

typedef struct Bench {
        Options options;
        Clock clock;
        json_object *metrics;
        json_object *series; /* name: [[x, y], ...] */
        uint32_t n_members;
        bool processes; /* members are processes */
        bool tight; /* there is to be room for the objects asked for, and for few more */
        bool not_applicable; /* this allocator cannot be asked that */
} Bench;

/* The option where it is given, otherwise the workload's own number scaled, and at least `least`. */
uint64_t bench_n_ops(const Bench *bench, uint64_t own, uint64_t least);
uint64_t bench_n_live(const Bench *bench, uint64_t own);
uint32_t bench_n_members(Bench *bench, uint32_t own);

void bench_metric(Bench *bench, const char *name, double value);
void bench_point(Bench *bench, const char *series, double x, double y);
/*
 * n, mean, mean of the fastest 99 %, p50 to p99.99 and max in nanoseconds, the timer's own time taken
 * off; names begin `prefix`. And all of them, as series PREFIX_cdf: nanoseconds, and the share not above.
 */
void bench_latencies(Bench *bench, const char *prefix, const Histogram *h);

double bench_median(double *values, uint32_t n); /* sorts them */

/*
 * The same touch of an object for every allocator: its first 8 bytes are written and read back, and the
 * compiler knows neither what comes back nor who else saw the object.
 */
static inline void bench_touch(void *object, uint64_t value) {
        *(volatile uint64_t *) object = value;
        if (bench_unlikely(*(volatile uint64_t *) object != value))
                bench_fail("an object does not hold what was written to it");
        __asm__ volatile("" : "+r"(object) : : "memory");
}
