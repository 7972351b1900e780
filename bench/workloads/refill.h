#pragma once
/*
 * The cheapest refill: 1024 objects are allocated, each measured by itself, then freed in the same order. Their
 * slabs empty and are taken anew, whole, and this process has touched all their pages.
 */
#include "bench/harness/harness.h"
#include "bench/workloads/batch.h"
#include "bench/workloads/latency.h"

static void refill_rounds(Latencies *latencies, uint64_t *handles, size_t size, uint64_t n) {
        for (uint64_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < BATCH; k++)
                        handles[k] = latencies_alloc(latencies, size, k);
                for (uint32_t k = 0; k < BATCH; k++)
                        latencies_free(latencies, handles[k]);
        }
}

static void workload_refill(Bench *bench) {
        uint64_t n = bench_n_ops(bench, 4000000, 0) / BATCH + 1;
        size_t size = bench->options.size;
        Latencies latencies;
        uint64_t *handles;

        (void) bench_n_members(bench, 1);
        bench_init(bench, size, BATCH);
        if (bench->not_applicable)
                return;
        group_pin(0);
        bench_thread_init();
        handles = bench_reserve(BATCH * sizeof(*handles));
        latencies_init(&latencies, &bench->clock);
        refill_rounds(&latencies, handles, size, n / 10 + 1);
        latencies_begin(&latencies);
        refill_rounds(&latencies, handles, size, n);
        latencies_end(&latencies);
        latencies_report(&latencies, bench);
        bench_thread_deinit();
}
