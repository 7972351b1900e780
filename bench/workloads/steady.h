#pragma once
/*
 * 1000 cycles of churn, each replacing a tenth of 100,000 objects at random: by how much does the memory of the
 * allocator grow once it has settled, that is after the first hundred cycles?
 */
#include <stdlib.h>

#include "bench/harness/harness.h"

#define STEADY_LIVE 100000
#define STEADY_CYCLES 1000

static void steady_cycle(uint64_t *handles, uint32_t n_live, size_t size, Random *random) {
        void *object;

        for (uint32_t i = 0; i < n_live / 10; i++) {
                uint64_t *handle = &handles[random_below(random, n_live)];

                bench_free(*handle);
                *handle = bench_alloc_or_fail(size, &object);
                bench_touch(object, i);
        }
}

static void steady_run(Bench *bench, uint64_t *handles, uint32_t n_live, uint64_t before) {
        uint64_t n_cycles = bench_n_ops(bench, STEADY_CYCLES, 20), settled = 0, last = 0, most = 0;
        Random random;

        random_init(&random, 1);
        for (uint64_t i = 1; i <= n_cycles; i++) {
                steady_cycle(handles, n_live, bench->options.size, &random);
                last = bench_resident() - before;
                if (i == n_cycles / 10)
                        settled = last;
                most = last > most ? last : most;
        }
        bench_metric(bench, "cycles", (double) n_cycles);
        bench_metric(bench, "settled_bytes", (double) settled);
        bench_metric(bench, "last_bytes", (double) last);
        bench_metric(bench, "most_bytes", (double) most);
        bench_metric(bench, "growth_percent", settled ? 100.0 * ((double) last / (double) settled - 1) : 0);
        bench_metric(bench, "resident_over_live", (double) last / ((double) n_live * bench->options.size));
}

static void workload_steady(Bench *bench) {
        uint32_t n_live = (uint32_t) bench_n_live(bench, STEADY_LIVE);
        uint64_t *handles = bench_reserve(n_live * sizeof(handles[0])), before;
        void *object;

        (void) bench_n_members(bench, 1);
        (void) setenv("BENCH_RETAIN", "0", 0);
        bench_init(bench, bench->options.size, n_live);
        if (bench->not_applicable)
                return;
        group_pin(0);
        /* A process's memory holds more than the allocator's objects; shared memory is counted by itself. */
        before = bench->processes ? 0 : bench_resident();
        bench_thread_init();
        for (uint32_t i = 0; i < n_live; i++) {
                handles[i] = bench_alloc_or_fail(bench->options.size, &object);
                bench_touch(object, i);
        }
        steady_run(bench, handles, n_live, before);
        for (uint32_t i = 0; i < n_live; i++)
                bench_free(handles[i]);
        bench_metric(bench, "freed_bytes", (double) bench_resident() - (double) before);
        bench_thread_deinit();
}
