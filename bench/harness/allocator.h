#pragma once
/*
 * The interface of an allocator.
 *
 * No function pointers, which would cost more than what is measured: an allocator is a header that
 * defines what is below, and bench/main.c is compiled once for each, with all workloads, as program
 * bench-NAME. To add one, write bench/allocators/NAME.h and name it in bench/meson.build; what has
 * malloc() and free() needs no header, only a line there that says what to link.
 *
 *     BENCH_NAME               "name"
 *     BENCH_SHARED             1: what a process allocates its relatives can use and free
 *     BENCH_ALLOC_SYMBOL       functions that callgrind is to count; "" where they are inlined
 *     BENCH_FREE_SYMBOL
 *
 *     void bench_init(Bench *, size, n)        once, before members are made; n objects at most
 *     void bench_thread_init(void)             in each member, before its first operation
 *     void bench_thread_deinit(void)
 *     uint64_t bench_alloc(size, &object)      what names an object to all members; 0: failed
 *     void *bench_get(uint64_t handle)         the object of it; NULL: there is none
 *     void bench_free(uint64_t handle)         fails the bench where it is refused
 *     uint64_t bench_resident(void)            bytes of memory it takes
 *     void bench_report(Bench *)               its counters, as metrics
 *     void bench_report_from_here(void)        forgets what it counted so far
 *     uint64_t bench_n_refills(void)           of this thread so far; a load, to tell slow operations apart
 *
 * and where it has such a thing:
 *
 *     BENCH_HAS_EPOCHS         bench_epoch_advance() closes the current epoch, opens the next one and
 *                              returns the closed one; bench_epoch_close(epoch);
 *                              bench_epoch_reserve(), bench_alloc_in(epoch, size, &object)
 *     BENCH_HAS_SIZES          objects of any size in one pool; bench_room(handle): of its class
 *     BENCH_HAS_CHECKS         bench_try_free(handle): false where it names no live object;
 *                              bench_alloc_noted(size, &handle): has it noted there, or not allocated;
 *                              bench_reap(): looks after the dead
 *     BENCH_HAS_ATTACH         bench_attach(Bench *): opens a pool anew; bench_detach(); of a daemon:
 *                              bench_attach_once(Bench *, Histogram *), bench_ask_stats(Bench *)
 */
#include BENCH_ALLOCATOR

#include "bench/harness/harness.h"

static inline uint64_t bench_alloc_or_fail(size_t size, void **ret_object) {
        uint64_t handle = bench_alloc(size, ret_object);

        if (bench_unlikely(handle == 0))
                bench_fail("out of memory");
        return handle;
}
