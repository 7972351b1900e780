#pragma once
/*
 * DPDK's mempool: a ring of pointers to objects of one size, and with DPDK_CACHE a cache for each
 * logical core. Its memory is a shared file even without huge pages, at the same address in all forked
 * processes. Two members must not use the same cache, so each sets a core number of its own.
 */
#include <errno.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#define BENCH_OWN_THREAD_INIT
#include "bench/allocators/uncounted.h"

#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL ""
#define BENCH_FREE_SYMBOL ""

static struct rte_mempool *dpdk_pool;
static uint64_t dpdk_base;

static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        static char *arguments[] = {
                "bench", "--no-huge",      "--no-pci",           "-m", "256", "--no-shconf", "-l",
                "0",     "--no-telemetry", "--log-level=*:error"
        };
        uint32_t n_objects = (uint32_t) n;

        if (rte_eal_init((int) (sizeof(arguments) / sizeof(arguments[0])), arguments) < 0)
                bench_fail("DPDK does not start: %s", rte_strerror(rte_errno));
        dpdk_base = bench_rss(); /* DPDK's own start is not counted */
        /* Objects in the caches of other members are out of reach: there must be enough without them. */
        if (DPDK_CACHE && !bench->tight)
                n_objects += GROUP_MEMBERS_MAX * 2 * DPDK_CACHE;
        dpdk_pool = rte_mempool_create("bench", n_objects, (unsigned int) size, DPDK_CACHE, 0, NULL, NULL,
                                       NULL, NULL, SOCKET_ID_ANY, 0);
        if (!dpdk_pool)
                bench_fail("no mempool of %u objects: %s", n_objects, rte_strerror(rte_errno));
}

static inline void bench_thread_init(void) {
        RTE_PER_LCORE(_lcore_id) = group_self;
}

/* The objects in the cache go back into the ring. */
static inline void bench_thread_deinit(void) {
        rte_mempool_cache_flush(rte_mempool_default_cache(dpdk_pool, rte_lcore_id()), dpdk_pool);
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        if (bench_unlikely(rte_mempool_get(dpdk_pool, ret_object) < 0))
                return 0;
        return (uintptr_t) *ret_object;
}

static inline void *bench_get(uint64_t handle) {
        return (void *) (uintptr_t) handle;
}

static inline void bench_free(uint64_t handle) {
        rte_mempool_put(dpdk_pool, (void *) (uintptr_t) handle);
}

static inline uint64_t bench_resident(void) {
        return bench_rss() - dpdk_base;
}
