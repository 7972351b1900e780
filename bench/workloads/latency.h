#pragma once
/* One operation between two readings of the clock. */
#include <string.h>

#include "bench/harness/harness.h"

typedef struct Latencies {
        Histogram *alloc;
        Histogram *alloc_refill; /* the allocations among them that refilled a cache */
        Histogram *free;
        const Clock *clock;
        uint64_t n_refills;
        uint64_t
                n_faults; /* in the measured loop. Our own memory is mapped by then: they are the allocator's */
} Latencies;

static void latencies_init(Latencies *l, const Clock *clock) {
        *l = (Latencies){
                .alloc = histogram_new(),
                .alloc_refill = histogram_new(),
                .free = histogram_new(),
                .clock = clock,
        };
}

/* Resets the figures after the warming up. */
static void latencies_begin(Latencies *l) {
        memset(l->alloc, 0, sizeof(*l->alloc));
        memset(l->alloc_refill, 0, sizeof(*l->alloc_refill));
        memset(l->free, 0, sizeof(*l->free));
        bench_report_from_here();
        l->n_refills = bench_n_refills();
        l->n_faults = bench_n_faults();
}

static void latencies_end(Latencies *l) {
        l->n_faults = bench_n_faults() - l->n_faults;
}

static inline uint64_t latencies_alloc(Latencies *l, size_t size, uint64_t value) {
        uint64_t begin, end, handle, n;
        void *object;

        begin = clock_now();
        handle = bench_alloc(size, &object);
        end = clock_now();
        if (bench_unlikely(handle == 0))
                bench_fail("out of memory");
        histogram_add(l->alloc, end - begin);
        n = bench_n_refills();
        if (n != l->n_refills)
                histogram_add(l->alloc_refill, end - begin);
        l->n_refills = n;
        bench_touch(object, value);
        return handle;
}

static inline void latencies_free(Latencies *l, uint64_t handle) {
        uint64_t begin, end;

        begin = clock_now();
        bench_free(handle);
        end = clock_now();
        histogram_add(l->free, end - begin);
}

static void latencies_report(const Latencies *l, Bench *bench) {
        bench_latencies(bench, "alloc", l->alloc);
        bench_latencies(bench, "free", l->free);
        bench_latencies(bench, "alloc_refill", l->alloc_refill);
        bench_metric(bench, "page_faults", (double) l->n_faults);
}
