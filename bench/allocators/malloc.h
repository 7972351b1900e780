#pragma once
/* The malloc() that the program is linked with: glibc's, or a library's. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "bench/allocators/uncounted.h"

#ifndef BENCH_NAME
#define BENCH_NAME "glibc"
#endif
#define BENCH_SHARED 0
#define BENCH_HAS_SIZES
#define BENCH_ALLOC_SYMBOL "malloc"
#define BENCH_FREE_SYMBOL "free"

#ifndef BENCH_MALLOC_FILE
#define BENCH_MALLOC_FILE "libc.so"
#endif

/* A library may be linked and still not provide malloc(). */
static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        Dl_info info;

        if (!dladdr((void *) malloc, &info) || !strstr(info.dli_fname, BENCH_MALLOC_FILE))
                bench_fail("malloc() is that of %s", info.dli_fname);
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        *ret_object = malloc(size);
        return (uintptr_t) *ret_object;
}

static inline void *bench_get(uint64_t handle) {
        return (void *) (uintptr_t) handle;
}

static inline void bench_free(uint64_t handle) {
        free((void *) (uintptr_t) handle);
}

static inline uint64_t bench_resident(void) {
        return bench_rss();
}

static inline size_t bench_room(uint64_t handle) {
        return malloc_usable_size((void *) (uintptr_t) handle);
}
