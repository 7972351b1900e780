#pragma once
/*
 * Shared memory for the allocators that are a few lines long: n objects of one size, in memory that forked
 * members inherit. A handle is an object's number, from 1.
 */
#include <inttypes.h>
#include <sys/mman.h>

#include "bench/allocators/uncounted.h"

#define SEGMENT_HEADER 4096 /* the peer's own state */

static struct {
        uint8_t *memory;
        size_t stride;
        uint64_t n;
        uint64_t base; /* resident bytes before the segment was mapped */
} segment;

/* Aligns objects to cache lines, as tslab does its power-of-two classes. Returns zeroed memory for the header. */
static void *segment_init(size_t size, uint64_t n) {
        segment.base = bench_rss();
        segment.stride = (size + 63) & ~(size_t) 63;
        segment.n = n;
        segment.memory = mmap(NULL, SEGMENT_HEADER + n * segment.stride, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (segment.memory == MAP_FAILED)
                bench_fail("no memory for %" PRIu64 " objects", n);
        return segment.memory;
}

static inline void *bench_get(uint64_t handle) {
        return segment.memory + SEGMENT_HEADER + (handle - 1) * segment.stride;
}

static inline uint64_t bench_resident(void) {
        return bench_rss() - segment.base;
}
