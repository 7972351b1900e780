#pragma once
/*
 * Allocate 1,000,000 objects, then free them all: no cache can help. `cold` is the first round, when every
 * page is new; `warm` is the median of the rounds after it.
 */
#include "bench/harness/harness.h"

#define ADVERSARIAL_WARM 5

typedef struct Adversarial {
        Bench *bench;
        uint64_t n;
        uint64_t *handles; /* [n] */
} Adversarial;

static void adversarial_pass(const Adversarial *a, double *ret_alloc_ns, double *ret_free_ns) {
        const Clock *clock = &a->bench->clock;
        size_t size = a->bench->options.size;
        uint64_t begin, middle, end;
        void *object;

        begin = clock_now();
        for (uint64_t i = 0; i < a->n; i++) {
                a->handles[i] = bench_alloc_or_fail(size, &object);
                bench_touch(object, i);
        }
        middle = clock_now();
        for (uint64_t i = 0; i < a->n; i++)
                bench_free(a->handles[i]);
        end = clock_now();
        *ret_alloc_ns = clock_net_ns(clock, (double) (middle - begin)) / (double) a->n;
        *ret_free_ns = clock_net_ns(clock, (double) (end - middle)) / (double) a->n;
}

static void workload_adversarial(Bench *bench) {
        Adversarial a = { .bench = bench, .n = bench_n_ops(bench, 1000000, 1000) };
        double alloc_ns[ADVERSARIAL_WARM], free_ns[ADVERSARIAL_WARM], cold_alloc_ns, cold_free_ns;

        (void) bench_n_members(bench, 1);
        a.handles = bench_reserve(a.n * sizeof(a.handles[0]));
        bench_init(bench, bench->options.size, a.n);
        if (bench->not_applicable)
                return;
        group_pin(0);
        bench_thread_init();
        adversarial_pass(&a, &cold_alloc_ns, &cold_free_ns);
        for (uint32_t i = 0; i < ADVERSARIAL_WARM; i++)
                adversarial_pass(&a, &alloc_ns[i], &free_ns[i]);
        bench_metric(bench, "cold_alloc_ns", cold_alloc_ns);
        bench_metric(bench, "cold_free_ns", cold_free_ns);
        bench_metric(bench, "warm_alloc_ns", bench_median(alloc_ns, ADVERSARIAL_WARM));
        bench_metric(bench, "warm_free_ns", bench_median(free_ns, ADVERSARIAL_WARM));
        bench_thread_deinit();
}
