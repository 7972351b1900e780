#pragma once
/*
 * Boost.Interprocess, in shared memory that forked members inherit, with the process-shared mutexes of
 * its managed_shared_memory. boost-rbtree.cpp and boost-pool.cpp have one function for each of these;
 * a handle is an offset in the segment.
 */
#ifdef __cplusplus
extern "C" {
#endif

#include <stddef.h>
#include <stdint.h>

void boost_init(void *memory, size_t memory_size, size_t size);
void boost_thread_init(void);
void boost_thread_deinit(void);
uint64_t boost_alloc(size_t size, void **ret_object);
void boost_free(uint64_t handle);

#ifdef __cplusplus
}
#else
#include <sys/mman.h>

#define BENCH_OWN_THREAD_INIT
#include "bench/allocators/uncounted.h"

#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL "boost_alloc"
#define BENCH_FREE_SYMBOL "boost_free"

static uint8_t *boost_memory;
static uint64_t boost_base;

/* The objects, and Boost's own data beside them; a pool takes 64 nodes at a time. */
static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        size_t memory_size = (n * (size + 64) + (UINT64_C(1) << 20)) & ~UINT64_C(4095);

        boost_base = bench_rss();
        boost_memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (boost_memory == MAP_FAILED)
                bench_fail("no memory for %zu bytes", memory_size);
        boost_init(boost_memory, memory_size, size);
}

static inline void bench_thread_init(void) {
        boost_thread_init();
}

static inline void bench_thread_deinit(void) {
        boost_thread_deinit();
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        return boost_alloc(size, ret_object);
}

static inline void *bench_get(uint64_t handle) {
        return boost_memory + handle;
}

static inline void bench_free(uint64_t handle) {
        boost_free(handle);
}

static inline uint64_t bench_resident(void) {
        return bench_rss() - boost_base;
}
#endif
