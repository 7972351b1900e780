#pragma once
/* Allocate 1024 objects, then free them in the same order: more than a cache holds. */
#include "bench/harness/harness.h"
#include "bench/workloads/pair.h"

#define BATCH 1024

typedef struct BatchShared {
        Bench *bench;
        uint64_t n_batches; /* in each round */
        Barrier barrier;
        double pair_ns[GROUP_MEMBERS_MAX][BENCH_ROUNDS];
        double alloc_ns[GROUP_MEMBERS_MAX][BENCH_ROUNDS];
        double free_ns[GROUP_MEMBERS_MAX][BENCH_ROUNDS];
        uint64_t handles[GROUP_MEMBERS_MAX][BATCH];
} BatchShared;

static void batch_round(BatchShared *shared, uint32_t member, uint32_t round) {
        const Clock *clock = &shared->bench->clock;
        double n = (double) (shared->n_batches * BATCH);
        size_t size = shared->bench->options.size;
        uint64_t *handles = shared->handles[member], begin, middle;
        double alloc_ns = 0, free_ns = 0;
        void *object;

        for (uint64_t i = 0; i < shared->n_batches; i++) {
                begin = clock_now();
                for (uint32_t k = 0; k < BATCH; k++) {
                        handles[k] = bench_alloc_or_fail(size, &object);
                        bench_touch(object, k);
                }
                middle = clock_now();
                for (uint32_t k = 0; k < BATCH; k++)
                        bench_free(handles[k]);
                free_ns += clock_net_ns(clock, (double) (clock_now() - middle));
                alloc_ns += clock_net_ns(clock, (double) (middle - begin));
        }
        shared->alloc_ns[member][round] = alloc_ns / n;
        shared->free_ns[member][round] = free_ns / n;
        shared->pair_ns[member][round] = (alloc_ns + free_ns) / n;
}

static void batch_member(void *arg, uint32_t member) {
        BatchShared *shared = arg;

        bench_prefault(shared, sizeof(*shared));
        bench_thread_init();
        batch_round(shared, member, 0);
        barrier_wait(&shared->barrier);
        for (uint32_t i = 0; i < BENCH_ROUNDS; i++)
                batch_round(shared, member, i);
        bench_thread_deinit();
}

static void workload_batch(Bench *bench) {
        uint32_t n_members = bench_n_members(bench, 1);
        BatchShared *shared = bench_reserve(sizeof(*shared));
        double share;

        shared->bench = bench;
        shared->n_batches = bench_n_ops(bench, 5000000, 0) / BATCH / BENCH_ROUNDS + 1;
        shared->barrier = (Barrier){ .n = n_members, .n_cpus = group_n_cpus() };
        bench_init(bench, bench->options.size, n_members * BATCH);
        if (bench->not_applicable)
                return;
        share = group_run(n_members, bench->processes, batch_member, shared);
        bench_metric(bench, "processor_share", share);
        bench_metric(bench, "pair_ns", members_median(shared->pair_ns, n_members));
        bench_metric(bench, "alloc_ns", members_median(shared->alloc_ns, n_members));
        bench_metric(bench, "free_ns", members_median(shared->free_ns, n_members));
}
