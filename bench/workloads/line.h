#pragma once
/*
 * The time that a cache line takes from one processor to another: two threads increment a word in turn. The
 * fastest of several rounds counts: in the others a thread waited while the other one did not run. With one
 * processor there is no such figure.
 */
#include <math.h>

#include "bench/harness/harness.h"

#define LINE_TURNS 100000 /* each thread's; the rounds' beginning and end take time too */

typedef struct LineShared {
        uint64_t n;
        uint64_t word __attribute__((aligned(64)));
} LineShared;

static void line_member(void *arg, uint32_t member) {
        LineShared *shared = arg;

        for (uint64_t i = member; i < shared->n; i += 2) {
                while (shm_load_acq(&shared->word) != i)
                        clock_relax();
                shm_store_rel(&shared->word, i + 1);
        }
}

static void workload_line(Bench *bench) {
        LineShared *shared = bench_reserve(sizeof(*shared));
        double ns, least = INFINITY;
        uint64_t begin;

        bench->not_applicable = group_n_cpus() < 2;
        if (bench->not_applicable)
                return;
        (void) bench_n_members(bench, 2);
        shared->n = 2 * bench_n_ops(bench, LINE_TURNS, LINE_TURNS);
        for (uint32_t i = 0; i < BENCH_ROUNDS; i++) {
                shared->word = 0;
                begin = clock_now();
                (void) group_run(2, false, line_member, shared);
                ns = clock_net_ns(&bench->clock, (double) (clock_now() - begin)) / (double) shared->n;
                least = fmin(ns, least);
        }
        bench_metric(bench, "line_ns", least);
}
