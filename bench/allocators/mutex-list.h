#pragma once
/*
 * Baseline: a free list under a robust process-shared mutex. A client that dies leaves the list whole, as
 * one store changes it; the object that the dead client had in hand is lost.
 */
#include <errno.h>
#include <pthread.h>

#include "bench/allocators/segment.h"

#define BENCH_NAME "mutex-list"
#define BENCH_SHARED 1
#define BENCH_ALLOC_SYMBOL ""
#define BENCH_FREE_SYMBOL ""

typedef struct MutexList {
        pthread_mutex_t lock;
        uint64_t head; /* a handle; each free object holds the next one */
        uint64_t n_fresh; /* objects that were never in the list */
} MutexList;

static MutexList *mutex_list;

static inline void bench_init(Bench *bench, size_t size, uint64_t n) {
        pthread_mutexattr_t attr;

        mutex_list = segment_init(size, n);
        (void) pthread_mutexattr_init(&attr);
        (void) pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        (void) pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        if (pthread_mutex_init(&mutex_list->lock, &attr) != 0)
                bench_fail("no robust mutexes here");
}

static inline void mutex_list_lock(void) {
        if (bench_unlikely(pthread_mutex_lock(&mutex_list->lock) == EOWNERDEAD))
                (void) pthread_mutex_consistent(&mutex_list->lock);
}

static inline uint64_t bench_alloc(size_t size, void **ret_object) {
        uint64_t handle;

        mutex_list_lock();
        handle = mutex_list->head;
        if (bench_likely(handle != 0))
                *(volatile uint64_t *) &mutex_list->head = *(volatile uint64_t *) bench_get(handle);
        else if (mutex_list->n_fresh < segment.n)
                handle = ++mutex_list->n_fresh;
        (void) pthread_mutex_unlock(&mutex_list->lock);
        *ret_object = bench_get(handle);
        return handle;
}

static inline void bench_free(uint64_t handle) {
        mutex_list_lock();
        *(volatile uint64_t *) bench_get(handle) = mutex_list->head;
        *(volatile uint64_t *) &mutex_list->head = handle;
        (void) pthread_mutex_unlock(&mutex_list->lock);
}
