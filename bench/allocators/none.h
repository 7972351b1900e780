#pragma once
/* No allocator: measures the workload's own loop and writes. There is one object, so only pairs can run. */
#include "bench/allocators/uncounted.h"

#define BENCH_NAME "none"
#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL ""
#define BENCH_FREE_SYMBOL ""

static uint64_t none_object[16] __attribute__((aligned(64)));

static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        if (n > 1)
                bench->not_applicable = true;
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        *ret_object = none_object;
        return 1;
}

static inline void *bench_get(uint64_t handle) {
        return none_object;
}

static inline void bench_free(uint64_t handle) {
}

static inline uint64_t bench_resident(void) {
        return bench_rss();
}
