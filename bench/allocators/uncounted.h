#pragma once
/*
 * For allocators that tell nothing of themselves; with BENCH_OWN_THREAD_INIT they have something to do
 * where a member begins and ends.
 */
#include "bench/harness/harness.h"

#ifndef BENCH_OWN_THREAD_INIT
static inline void bench_thread_init(void) {
}

static inline void bench_thread_deinit(void) {
}
#endif

static inline void bench_report(Bench *bench) {
}

static inline void bench_report_from_here(void) {
}

static inline uint64_t bench_n_refills(void) {
        return 0;
}
