#pragma once
/*
 * Baseline: a Treiber stack of free objects. Its head is an object's handle and, above it, a count of
 * changes: an object that was taken and put back meanwhile is not mistaken for the old state.
 */
#include "bench/allocators/segment.h"

#define BENCH_NAME "treiber"
#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL ""
#define BENCH_FREE_SYMBOL ""

#define TREIBER_HANDLE UINT64_C(0xffffffff)

typedef struct Treiber {
        uint64_t head;
        uint64_t n_fresh __attribute__((aligned(64))); /* objects that were never on the stack */
} Treiber;

static Treiber *treiber;

static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        treiber = segment_init(size, n);
}

static inline uint64_t treiber_fresh(void) {
        uint64_t n = shm_load_rlx(&treiber->n_fresh);

        while (n < segment.n)
                if (shm_cas_acqrel(&treiber->n_fresh, &n, n + 1))
                        return n + 1;
        return 0;
}

static inline uint64_t treiber_word(uint64_t old, uint64_t handle) {
        return ((old & ~TREIBER_HANDLE) + TREIBER_HANDLE + 1) | handle;
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        uint64_t head = shm_load_acq(&treiber->head), handle, next;

        do {
                handle = head & TREIBER_HANDLE;
                if (bench_unlikely(handle == 0)) {
                        handle = treiber_fresh();
                        break;
                }
                /* The object may be another member's by now: then the head has changed. */
                next = shm_load_rlx((uint64_t *) bench_get(handle)) & TREIBER_HANDLE;
        } while (!shm_cas_acqrel(&treiber->head, &head, treiber_word(head, next)));
        *ret_object = bench_get(handle);
        return handle;
}

static inline void bench_free(uint64_t handle) {
        uint64_t head = shm_load_acq(&treiber->head);

        do
                shm_store_rlx((uint64_t *) bench_get(handle), head & TREIBER_HANDLE);
        while (!shm_cas_acqrel(&treiber->head, &head, treiber_word(head, handle)));
}
