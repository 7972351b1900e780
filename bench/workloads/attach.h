#pragma once
/*
 * The time from opening a pool to the first object, in this process: with --pool a daemon's pool, otherwise a
 * new private one. And the time in a forked child, which inherits the pool and attaches to it.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness/harness.h"

#ifdef BENCH_HAS_ATTACH
static uint64_t attach_first_object(size_t size) {
        void *object;
        uint64_t handle = bench_alloc_or_fail(size, &object);

        bench_touch(object, handle);
        return handle;
}

static void attach_open(Bench *bench, Histogram *h) {
        uint64_t begin = clock_now(), handle;

        bench_attach(bench, 0);
        handle = attach_first_object(bench->options.size);
        histogram_add(h, clock_now() - begin);
        bench_free(handle);
        bench_detach();
}

static void attach_forked(Bench *bench, uint64_t *ticks) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                uint64_t begin = clock_now(), handle = attach_first_object(bench->options.size);

                *ticks = clock_now() - begin;
                bench_free(handle);
                bench_detach();
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
                bench_fail("a forked child failed");
}

static void workload_attach(Bench *bench) {
        Histogram *open = histogram_new(), *forked = histogram_new();
        uint64_t n = bench_n_ops(bench, 100, 5), *ticks = bench_reserve(sizeof(*ticks));

        (void) bench_n_members(bench, 1);
        if (bench->options.cache)
                (void) setenv("TSLAB_CACHE", bench->options.cache, 1);
        group_pin(0);
        for (uint64_t i = 0; i < n; i++)
                attach_open(bench, open);
        bench_init(bench, bench->options.size, 1);
        for (uint64_t i = 0; i < n; i++) {
                attach_forked(bench, ticks);
                histogram_add(forked, *ticks);
        }
        bench_latencies(bench, "open", open);
        bench_latencies(bench, "forked", forked);
}
#else
static void workload_attach(Bench *bench) {
        bench->not_applicable = true;
}
#endif
