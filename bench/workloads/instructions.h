#pragma once
/*
 * Pairs for counting instructions. bench/run runs this under callgrind with N and with 2N of them: the
 * difference is N hits, without the start of the program. No clock and no warming up, which would differ.
 */
#include "bench/harness/harness.h"

static void workload_instructions(Bench *bench) {
        uint64_t n = bench_n_ops(bench, 20000, 1), handle;
        size_t size = bench->options.size;
        void *object;

        (void) bench_n_members(bench, 1);
        bench_init(bench, size, 1);
        for (uint64_t i = 0; i < n; i++) {
                handle = bench_alloc_or_fail(size, &object);
                bench_touch(object, i);
                bench_free(handle);
        }
}
