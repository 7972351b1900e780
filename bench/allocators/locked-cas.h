#pragma once
/*
 * Yardstick: one bare locked compare-and-set on a line of its own, and nothing else. The difference to
 * `none` is the cost of a pair's one atomic on this machine.
 */
#include "bench/allocators/uncounted.h"

#define BENCH_NAME "locked-cas"
#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL ""
#define BENCH_FREE_SYMBOL ""

static struct {
        uint64_t object[16];
        uint64_t word __attribute__((aligned(64)));
} locked_cas __attribute__((aligned(64)));

static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        if (n > 1)
                bench->not_applicable = true;
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        *ret_object = locked_cas.object;
        return 1;
}

static inline void *bench_get(uint64_t handle) {
        return locked_cas.object;
}

static inline void bench_free(uint64_t handle) {
        uint64_t expected = shm_load_rlx(&locked_cas.word);

        if (bench_unlikely(!shm_cas_acqrel(&locked_cas.word, &expected, expected + 1)))
                bench_fail("somebody wrote to the word");
}

static inline uint64_t bench_resident(void) {
        return bench_rss();
}
