#pragma once
/*
 * The interface of an allocator.
 *
 * No function pointers, which would cost more than the operations: an allocator is a header that defines
 * the names below, and bench/main.c is compiled once for each, with all workloads, as program bench-NAME.
 * To add one, write bench/allocators/NAME.h and name it in bench/meson.build. A library with malloc() and
 * free() needs no header, only a line there that names the library.
 *
 *     BENCH_NAME               "name"
 *     BENCH_SHARED             1: a process's relatives can use and free the objects that it allocates
 *     BENCH_ALLOC_SYMBOL       functions that callgrind counts; "" where they are inlined
 *     BENCH_FREE_SYMBOL
 *
 *     void bench_init(Bench *, size, n)        once, before members are made; n objects at most
 *     void bench_thread_init(void)             in each member, before its first operation
 *     void bench_thread_deinit(void)
 *     uint64_t bench_alloc(size, &object)      returns a handle that all members understand; 0: failed
 *     void *bench_get(uint64_t handle)         the handle's object; NULL: there is none
 *     void bench_free(uint64_t handle)         ends the program if the allocator refuses
 *     uint64_t bench_resident(void)            the allocator's memory, in bytes
 *     void bench_report(Bench *)               the allocator's counters, as metrics
 *     void bench_report_from_here(void)        resets the counters
 *     uint64_t bench_n_refills(void)           the calling thread's refills so far; one load, to tell slow
 *                                              operations apart
 *
 * and where the allocator has such a thing:
 *
 *     BENCH_HAS_EPOCHS         bench_epoch_advance() closes the current epoch, opens the next one and
 *                              returns the closed one; bench_epoch_current(); bench_epoch_close(epoch);
 *                              bench_epoch_reserve(), bench_alloc_in(epoch, size, &object)
 *     BENCH_HAS_SIZES          objects of any size in one pool; bench_room(handle): the size of its class
 *     BENCH_HAS_BATCHES        bench_alloc_batch(size, handles, n), bench_free_batch(handles, n): one call for
 *                              all of n objects
 *     BENCH_HAS_HELD           bench_held(): bytes of the slabs that are not empty; otherwise bench_resident()
 *     BENCH_HAS_CHECKS         bench_try_free(handle): false where the handle names no live object;
 *                              bench_alloc_noted(size, &handle): allocates and stores the handle in one
 *                              step, as far as a crash can tell; bench_reap(): repairs after the dead
 *     BENCH_HAS_ATTACH         bench_attach(Bench *): opens a pool anew; bench_detach(); with a daemon:
 *                              bench_attach_once(Bench *, Histogram *), bench_ask_stats(Bench *)
 */
#include BENCH_ALLOCATOR

#include "bench/harness/harness.h"

#ifndef BENCH_HAS_HELD
static inline uint64_t bench_held(void) {
        return bench_resident();
}
#endif

static inline uint64_t bench_alloc_or_fail(size_t size, void **ret_object) {
        uint64_t handle = bench_alloc(size, ret_object);

        if (bench_unlikely(handle == 0))
                bench_fail("out of memory");
        return handle;
}
