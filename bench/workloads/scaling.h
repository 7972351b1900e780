#pragma once
/*
 * Threads of one process, each with places for 1024 objects: a random place is filled if it is empty, and emptied
 * if it is not. Reported: the operations of all threads together, and the hit rate.
 */
#include "bench/harness/harness.h"

#define SCALING_PLACES 1024

typedef struct ScalingShared {
        Bench *bench;
        uint64_t n; /* operations of each member */
        Barrier barrier;
        struct {
                uint64_t begin, end;
                uint64_t handles[SCALING_PLACES];
        } members[GROUP_MEMBERS_MAX];
} ScalingShared;

static void scaling_steps(ScalingShared *shared, uint32_t member, Random *random, uint64_t n) {
        uint64_t *handles = shared->members[member].handles;
        size_t size = shared->bench->options.size;
        void *object;

        for (uint64_t i = 0; i < n; i++) {
                uint64_t *handle = &handles[random_below(random, SCALING_PLACES)];

                if (*handle) {
                        bench_free(*handle);
                        *handle = 0;
                } else {
                        *handle = bench_alloc_or_fail(size, &object);
                        bench_touch(object, i);
                }
        }
}

static void scaling_member(void *arg, uint32_t member) {
        ScalingShared *shared = arg;
        Random random;

        random_init(&random, member);
        bench_thread_init();
        scaling_steps(shared, member, &random, 8 * SCALING_PLACES);
        barrier_wait(&shared->barrier);
        shared->members[member].begin = clock_now();
        scaling_steps(shared, member, &random, shared->n);
        shared->members[member].end = clock_now();
        barrier_wait(&shared->barrier);
        bench_thread_deinit();
}

static void workload_scaling(Bench *bench) {
        uint32_t n_members = bench_n_members(bench, 2);
        ScalingShared *shared = bench_reserve(sizeof(*shared));
        uint64_t begin = UINT64_MAX, end = 0;
        double ns, n_ops;

        shared->bench = bench;
        shared->n = bench_n_ops(bench, 8000000, n_members) / n_members;
        shared->barrier = (Barrier){ .n = n_members, .n_cpus = group_n_cpus() };
        bench_init(bench, bench->options.size, n_members * SCALING_PLACES);
        if (bench->not_applicable)
                return;
        group_run(n_members, false, scaling_member, shared);
        for (uint32_t i = 0; i < n_members; i++) {
                begin = shared->members[i].begin < begin ? shared->members[i].begin : begin;
                end = shared->members[i].end > end ? shared->members[i].end : end;
        }
        ns = clock_net_ns(&bench->clock, (double) (end - begin));
        n_ops = (double) shared->n * n_members;
        bench_metric(bench, "op_ns", ns / n_ops);
        bench_metric(bench, "mops_per_s", n_ops / ns * 1000);
}
