#pragma once
/*
 * For allocators without counters. With BENCH_OWN_THREAD_INIT they define the functions that run where a
 * member begins and ends.
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
