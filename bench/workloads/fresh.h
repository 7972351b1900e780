#pragma once
/*
 * New memory: 100,000 objects are allocated and written to, each measured by itself. Nothing was allocated before, so
 * pages are made all the time, and the longest of these calls are those that make pages.
 */
#include "bench/harness/harness.h"

static void workload_fresh(Bench *bench) {
        uint64_t n = bench_n_ops(bench, 100000, 1000), begin, end, first, last;
        size_t size = bench->options.size;
        Histogram *histogram = histogram_new();
        void *object;

        (void) bench_n_members(bench, 1);
        bench_init(bench, size, n);
        if (bench->not_applicable)
                return;
        group_pin(0);
        bench_thread_init();
        bench_report_from_here();
        first = clock_now();
        for (uint64_t i = 0; i < n; i++) {
                begin = clock_now();
                (void) bench_alloc_or_fail(size, &object);
                bench_touch(object, i);
                end = clock_now();
                histogram_add(histogram, end - begin);
        }
        last = clock_now();
        bench_latencies(bench, "alloc", histogram);
        bench_metric(bench, "alloc_ns", clock_net_ns(&bench->clock, (double) (last - first)) / (double) n);
        bench_thread_deinit();
}
