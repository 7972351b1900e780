#pragma once
/*
 * tslab as programs use it: <tslab.h> and the .so. A private pool, or with --pool a daemon's.
 *
 * --cache sets $TSLAB_CACHE before the pool is opened. Free slabs keep their memory (`retain` is the
 * whole arena), so that the workloads measure the allocator and not the kernel; `steady` and
 * $BENCH_RETAIN set another limit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tslab.h>

#include "bench/harness/harness.h"
#include "bench/harness/inside.h"

#define BENCH_NAME "tslab"
#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL "tslab_alloc"
#define BENCH_FREE_SYMBOL "tslab_free"
#define BENCH_HAS_EPOCHS
#define BENCH_HAS_ATTACH
#define BENCH_HAS_CHECKS
#define BENCH_HAS_SIZES
#define BENCH_HAS_BATCHES
#define BENCH_HAS_HELD

#define TSLAB_ARENA_MIN (UINT64_C(256) << 20)

static struct tslab *bench_pool;
static Inside *bench_inside;
static __thread const uint64_t *bench_refills;

static void bench_attach(Bench *bench, uint64_t arena_bytes) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = arena_bytes };
        const char *retain = getenv("BENCH_RETAIN");
        int r;

        options.retain_bytes = retain ? strtoull(retain, NULL, 0) : arena_bytes;
        if (options.retain_bytes == 0)
                options.retain_bytes = 1; /* none: 0 asks for the default */
        r = bench->options.pool ? tslab_open(&bench_pool, bench->options.pool, NULL)
                                : tslab_create(&bench_pool, &options);
        if (r < 0)
                bench_fail("cannot open a pool: %s", strerror(-r));
}

static void bench_detach(void) {
        bench_pool = tslab_close(bench_pool);
}

/* One more client, from opening the pool to its first object. */
static void bench_attach_once(Bench *bench, Histogram *h) {
        struct tslab *pool;
        tslab_handle handle;
        uint64_t begin = clock_now();
        int r = tslab_open(&pool, bench->options.pool, NULL);

        if (r == 0)
                r = tslab_alloc(pool, bench->options.size, TSLAB_EPOCH_CURRENT, &handle, NULL);
        if (r < 0)
                bench_fail("cannot attach: %s", strerror(-r));
        histogram_add(h, clock_now() - begin);
        (void) tslab_free(pool, handle);
        (void) tslab_close(pool);
}

static void bench_ask_stats(Bench *bench) {
        inside_ask_stats(bench->options.pool);
}

/* Room for n objects and as much again, for slabs that are partly used, caches and earlier epochs. */
static void bench_init(Bench *bench, size_t size, uint64_t n) {
        uint64_t needed = (n * (size + 64) * 2 + 0xfffff) & ~UINT64_C(0xfffff);

        if (bench->options.cache)
                (void) setenv("TSLAB_CACHE", bench->options.cache, 1);
        bench_attach(bench, bench->tight               ? (n * size + 0xffff) & ~UINT64_C(0xffff)
                            : needed > TSLAB_ARENA_MIN ? needed
                                                       : TSLAB_ARENA_MIN);
        bench_inside = inside_new(bench_pool);
}

static uint64_t bench_cached(void) {
        return inside_cached(bench_inside);
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        tslab_handle handle;

        if (bench_unlikely(tslab_alloc(bench_pool, size, TSLAB_EPOCH_CURRENT, &handle, ret_object) < 0))
                return 0;
        return handle;
}

static inline void *bench_get(uint64_t handle) {
        void *object;

        return bench_likely(tslab_get(bench_pool, handle, &object, NULL) == 0) ? object : NULL;
}

static inline void bench_free(uint64_t handle) {
        int r = tslab_free(bench_pool, handle);

        if (bench_unlikely(r < 0))
                bench_fail("free: %s", strerror(-r));
}

static void tslab_operate(void) {
        void *object;
        uint64_t handle = bench_alloc(64, &object);

        if (handle == 0)
                bench_fail("no object for a thread that begins");
        bench_free(handle);
}

static inline void bench_alloc_batch(size_t size, uint64_t *ret_handles, size_t n) {
        if (bench_unlikely(tslab_alloc_batch(bench_pool, size, TSLAB_EPOCH_CURRENT, ret_handles, n) !=
                           (ssize_t) n))
                bench_fail("not all of %zu objects were allocated", n);
}

static inline void bench_free_batch(const uint64_t *handles, size_t n) {
        if (bench_unlikely(tslab_free_batch(bench_pool, handles, n) != (ssize_t) n))
                bench_fail("not all of %zu objects were freed", n);
}

/* A thread gets its record by its first call; a forked process attaches. */
static void bench_thread_init(void) {
        tslab_operate();
        bench_refills = inside_refills(bench_inside, tslab_operate);
}

static void bench_thread_deinit(void) {
        bench_refills = NULL;
}

static inline uint64_t bench_n_refills(void) {
        return bench_refills ? shm_load_rlx(bench_refills) : 0;
}

static inline uint64_t bench_resident(void) {
        return inside_resident(bench_inside);
}

static inline uint64_t bench_held(void) {
        return inside_held(bench_inside);
}

static void bench_report(Bench *bench) {
        if (bench_inside)
                inside_report(bench_inside, bench);
}

static void bench_report_from_here(void) {
        inside_reset(bench_inside);
}

static uint32_t bench_epoch_current(void) {
        uint32_t epoch;
        int r = tslab_epoch_current(bench_pool, &epoch);

        if (r < 0)
                bench_fail("current epoch: %s", strerror(-r));
        return epoch;
}

/* In a private pool, a thread that frees the last object of a slab of a closed epoch runs deferred work: EBUSY. */
static uint32_t bench_epoch_advance(void) {
        uint32_t old = bench_epoch_current(), epoch;
        int r;

        do
                r = tslab_epoch_advance(bench_pool, &epoch);
        while (r == -EBUSY);
        if (r < 0)
                bench_fail("advance: %s", strerror(-r));
        return old;
}

static void bench_epoch_close(uint32_t epoch) {
        int r;

        do
                r = tslab_epoch_close(bench_pool, epoch, 0);
        while (r == -EBUSY);
        if (r < 0)
                bench_fail("close: %s", strerror(-r));
}

/* If the process dies before the handle is noted in *ret_handle, repair frees the object. */
static inline void bench_alloc_noted(size_t size, uint64_t *ret_handle) {
        int r = tslab_alloc_pending(bench_pool, size, TSLAB_EPOCH_CURRENT, ret_handle, NULL);

        if (r == 0)
                r = tslab_publish(bench_pool, *ret_handle);
        if (r < 0)
                bench_fail("allocating: %s", strerror(-r));
}

static inline bool bench_try_free(uint64_t handle) {
        return tslab_free(bench_pool, handle) == 0;
}

/* A daemon repairs by itself. EBUSY: the dead process was running deferred work, which may have to be waited for. */
static inline void bench_reap(void) {
        int r;

        do
                r = tslab_reap(bench_pool);
        while (r == -EBUSY);
        if (r < 0)
                bench_fail("reap: %s", strerror(-r));
}

static inline size_t bench_room(uint64_t handle) {
        void *object;
        size_t size = 0;

        (void) tslab_get(bench_pool, handle, &object, &size);
        return size;
}

static uint32_t bench_epoch_reserve(void) {
        uint32_t epoch;
        int r = tslab_epoch_reserve(bench_pool, "bench", &epoch);

        if (r < 0)
                bench_fail("reserve: %s", strerror(-r));
        return epoch;
}

static inline uint64_t bench_alloc_in(uint32_t epoch, size_t size, void **ret_object) {
        tslab_handle handle;
        int r = tslab_alloc(bench_pool, size, epoch, &handle, ret_object);

        if (r < 0)
                bench_fail("allocating in a reserved epoch: %s", strerror(-r));
        return handle;
}
