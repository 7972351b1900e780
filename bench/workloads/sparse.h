#pragma once
/*
 * Memory that comes back though nothing is closed: 64 MB of objects, of which a random twentieth is left. Each of these
 * is then replaced eight times, one by one at random. Reported: the memory of the slabs, or of the process, over the
 * live objects, before these turnovers and after.
 */
#include <stdlib.h>

#include "bench/harness/harness.h"

#define SPARSE_BYTES UINT64_C(64000000)
#define SPARSE_KEPT 20 /* one object in so many is left */
#define SPARSE_TURNOVERS 8

typedef struct Sparse {
        Bench *bench;
        Random random;
        uint64_t *handles;
        uint32_t n_live;
        uint64_t before;
} Sparse;

static void sparse_alloc(Sparse *sparse) {
        void *object;

        sparse->handles[sparse->n_live++] = bench_alloc_or_fail(sparse->bench->options.size, &object);
        bench_touch(object, sparse->n_live);
}

static void sparse_free(Sparse *sparse) {
        uint32_t i = random_below(&sparse->random, sparse->n_live);

        bench_free(sparse->handles[i]);
        sparse->handles[i] = sparse->handles[--sparse->n_live];
}

static void sparse_report(const Sparse *sparse, const char *name) {
        bench_metric(sparse->bench, name,
                     (double) (bench_held() - sparse->before) /
                             ((double) sparse->n_live * sparse->bench->options.size));
}

static void workload_sparse(Bench *bench) {
        uint32_t n = (uint32_t) (bench_n_ops(bench, SPARSE_BYTES, 1 << 20) / bench->options.size);
        Sparse sparse = { .bench = bench, .handles = bench_reserve(n * sizeof(uint64_t)) };

        (void) bench_n_members(bench, 1);
        random_init(&sparse.random, 1);
        bench_init(bench, bench->options.size, n);
        group_pin(0);
        sparse.before = bench->processes ? 0 : bench_held();
        bench_thread_init();
        while (sparse.n_live < n)
                sparse_alloc(&sparse);
        while (sparse.n_live > n / SPARSE_KEPT)
                sparse_free(&sparse);
        sparse_report(&sparse, "fallen_over_live");
        for (uint32_t i = 0; i < SPARSE_TURNOVERS * (n / SPARSE_KEPT); i++) {
                sparse_free(&sparse);
                sparse_alloc(&sparse);
        }
        sparse_report(&sparse, "held_over_live");
        bench_thread_deinit();
}
