#pragma once
/* Allocate one object, touch it, free it, over and over: the best case of every cache. */
#include "bench/harness/harness.h"

static double pair_round(Bench *bench, uint64_t n) {
        size_t size = bench->options.size;
        uint64_t handle, begin = clock_now();
        void *object;

        for (uint64_t i = 0; i < n; i++) {
                handle = bench_alloc_or_fail(size, &object);
                bench_touch(object, i);
                bench_free(handle);
        }
        return clock_net_ns(&bench->clock, (double) (clock_now() - begin)) / (double) n;
}

/* The members' figures, and the barrier at which they begin together. */
typedef struct PairShared {
        Bench *bench;
        uint64_t n;
        Barrier barrier;
        double ns[GROUP_MEMBERS_MAX][BENCH_ROUNDS];
} PairShared;

static void pair_member(void *arg, uint32_t member) {
        PairShared *shared = arg;
        uint64_t n = shared->n / BENCH_ROUNDS + 1;

        bench_thread_init();
        (void) pair_round(shared->bench, n);
        barrier_wait(&shared->barrier);
        for (uint32_t i = 0; i < BENCH_ROUNDS; i++)
                shared->ns[member][i] = pair_round(shared->bench, n);
        bench_thread_deinit();
}

/* The median of the members' medians: one member's time for a pair while all of them work. */
static double members_median(double rounds[][BENCH_ROUNDS], uint32_t n_members) {
        double medians[GROUP_MEMBERS_MAX];

        for (uint32_t i = 0; i < n_members; i++)
                medians[i] = bench_median(rounds[i], BENCH_ROUNDS);
        return bench_median(medians, n_members);
}

static void workload_pair(Bench *bench) {
        uint32_t n_members = bench_n_members(bench, 1);
        PairShared *shared = bench_reserve(sizeof(*shared));
        double share;

        shared->bench = bench;
        shared->n = bench_n_ops(bench, 10000000, BENCH_ROUNDS);
        shared->barrier = (Barrier){ .n = n_members, .n_cpus = group_n_cpus() };
        bench_init(bench, bench->options.size, n_members);
        share = group_run(n_members, bench->processes, pair_member, shared);
        bench_metric(bench, "processor_share", share);
        bench_metric(bench, "pair_ns", members_median(shared->ns, n_members));
}
