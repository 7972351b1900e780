#pragma once
/*
 * Closing an epoch of 1 GiB of empty slabs (--ops: bytes), in a private pool or with --pool by its daemon; and
 * in the same run punching a hole of as many bytes into a plain memfd whose pages are mapped here as well. The
 * pool, or the daemon, must retain at least as many bytes: otherwise it gives some back before the close. closed_bytes
 * reports how much the close gave back, and left_percent how much of the peak is still resident.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/harness/harness.h"

#ifdef BENCH_HAS_EPOCHS
#define CLOSE_BYTES (UINT64_C(1) << 30)
#define CLOSE_ROUNDS 3

static double close_epoch(Bench *bench, uint64_t *handles, uint64_t n, double *ret_bytes, double *ret_left) {
        uint64_t begin, end, before;
        uint32_t epoch;
        void *object;

        for (uint64_t i = 0; i < n; i++) {
                handles[i] = bench_alloc_or_fail(bench->options.size, &object);
                bench_touch(object, i);
        }
        for (uint64_t i = 0; i < n; i++)
                bench_free(handles[i]);
        before = bench_resident();
        epoch = bench_epoch_advance();
        begin = clock_now();
        bench_epoch_close(epoch);
        end = clock_now();
        *ret_bytes = (double) before - (double) bench_resident();
        *ret_left = 100.0 * (double) bench_resident() / (double) before;
        return clock_net_ns(&bench->clock, (double) (end - begin)) / 1e6;
}

/* madvise(MADV_REMOVE) is the same in the kernel. */
static double close_punch(Bench *bench, uint64_t bytes) {
        int fd = memfd_create("bench", MFD_CLOEXEC);
        uint64_t begin, end;
        void *memory;

        if (fd < 0 || ftruncate(fd, (off_t) bytes) < 0)
                bench_fail("no memory of %" PRIu64 " bytes to punch", bytes);
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
                bench_fail("no mapping of %" PRIu64 " bytes", bytes);
        bench_prefault(memory, bytes);
        begin = clock_now();
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t) bytes) < 0)
                bench_fail("fallocate: no hole");
        end = clock_now();
        (void) munmap(memory, bytes);
        (void) close(fd);
        return clock_net_ns(&bench->clock, (double) (end - begin)) / 1e6;
}

static void workload_close(Bench *bench) {
        uint64_t bytes = bench_n_ops(bench, CLOSE_BYTES, 1 << 20), n = bytes / bench->options.size;
        double close_ms[CLOSE_ROUNDS], punch_ms[CLOSE_ROUNDS], closed = 0, left = 0;
        uint64_t *handles = bench_reserve(n * sizeof(handles[0]));

        (void) bench_n_members(bench, 1);
        bench_init(bench, bench->options.size, n);
        group_pin(0);
        bench_thread_init();
        for (uint32_t i = 0; i < CLOSE_ROUNDS; i++) {
                close_ms[i] = close_epoch(bench, handles, n, &closed, &left);
                punch_ms[i] = close_punch(bench, bytes);
        }
        bench_metric(bench, "close_ms", bench_median(close_ms, CLOSE_ROUNDS));
        bench_metric(bench, "punch_ms", bench_median(punch_ms, CLOSE_ROUNDS));
        bench_metric(bench, "closed_bytes", closed);
        bench_metric(bench, "left_percent", left);
        bench_metric(bench, "close_over_punch",
                     bench_median(close_ms, CLOSE_ROUNDS) / bench_median(punch_ms, CLOSE_ROUNDS));
        bench_thread_deinit();
}
#else
static void workload_close(Bench *bench) {
        bench->not_applicable = true;
}
#endif
