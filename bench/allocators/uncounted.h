#pragma once
/* For allocators that tell nothing of themselves. */
#include "bench/harness.h"

static inline void bench_thread_init(void) {
}

static inline void bench_thread_deinit(void) {
}

static inline uint64_t bench_resident(void) {
        return bench_rss();
}

static inline void bench_report(Bench *bench) {
}

static inline void bench_report_from_here(void) {
}

static inline uint64_t bench_n_refills(void) {
        return 0;
}
