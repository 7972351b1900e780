#pragma once
/*
 * A worker allocates into the current epoch, and frees each object after 1000 more; meanwhile another process
 * advances the epoch every two milliseconds and closes the one before. Every operation of the worker is measured
 * by itself. An allocator without epochs shows the machine's own disturbance.
 */
#include <time.h>

#include "bench/harness/harness.h"
#include "bench/workloads/latency.h"

#define ROTATION_LIVE 1000
#define ROTATION_PERIOD_NS 2000000
#define ROTATION_TRIES 100000 /* for one allocation, which may meet an epoch that has just been closed */

typedef struct RotationShared {
        Bench *bench;
        uint64_t n;
        Barrier barrier;
        Latencies latencies;
        Histogram *advance, *close;
        uint64_t n_retries;
        uint32_t done __attribute__((aligned(64)));
        uint64_t handles[ROTATION_LIVE];
} RotationShared;

static uint64_t rotation_alloc(RotationShared *shared, uint64_t value) {
        size_t size = shared->bench->options.size;
        uint64_t handle = 0, begin, end;
        void *object;

        begin = clock_now();
        for (uint32_t i = 0; i < ROTATION_TRIES; i++) {
                handle = bench_alloc(size, &object);
                if (bench_likely(handle != 0))
                        break;
                shared->n_retries++;
        }
        end = clock_now();
        if (handle == 0)
                bench_fail("allocation failed %d times", ROTATION_TRIES);
        histogram_add(shared->latencies.alloc, end - begin);
        bench_touch(object, value);
        return handle;
}

static void rotation_work(RotationShared *shared) {
        latencies_begin(&shared->latencies);
        for (uint64_t i = 0; i < shared->n; i++) {
                uint64_t *handle = &shared->handles[i % ROTATION_LIVE];

                if (*handle)
                        latencies_free(&shared->latencies, *handle);
                *handle = rotation_alloc(shared, i);
        }
        latencies_end(&shared->latencies);
        shm_store_rel(&shared->done, 1);
}

static void rotation_rotate(RotationShared *shared) {
        const struct timespec period = { .tv_nsec = ROTATION_PERIOD_NS };

        while (!shm_load_acq(&shared->done)) {
#ifdef BENCH_HAS_EPOCHS
                uint64_t begin = clock_now(), middle;
                uint32_t old = bench_epoch_advance();

                middle = clock_now();
                bench_epoch_close(old);
                histogram_add(shared->close, clock_now() - middle);
                histogram_add(shared->advance, middle - begin);
#endif
                (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &period, NULL);
        }
}

static void rotation_member(void *arg, uint32_t member) {
        RotationShared *shared = arg;

        bench_prefault(shared, sizeof(*shared));
        bench_prefault(shared->latencies.alloc, sizeof(Histogram));
        bench_prefault(shared->latencies.free, sizeof(Histogram));
        bench_thread_init();
        barrier_wait(&shared->barrier);
        if (member == 0)
                rotation_work(shared);
        else
                rotation_rotate(shared);
        bench_thread_deinit();
}

static void workload_rotation(Bench *bench) {
        RotationShared *shared = bench_reserve(sizeof(*shared));

        bench->options.n_members = 2;
        (void) bench_n_members(bench, 2);
        shared->bench = bench;
        shared->n = bench_n_ops(bench, 3000000, ROTATION_LIVE);
        shared->barrier = (Barrier){ .n = 2, .n_cpus = group_n_cpus() };
        shared->advance = histogram_new();
        shared->close = histogram_new();
        latencies_init(&shared->latencies, &bench->clock);
        bench_init(bench, bench->options.size, ROTATION_LIVE + 1);
        if (bench->not_applicable)
                return;
        group_run(2, bench->processes, rotation_member, shared);
        latencies_report(&shared->latencies, bench);
        bench_latencies(bench, "advance", shared->advance);
        bench_latencies(bench, "close", shared->close);
        bench_metric(bench, "retries", (double) shared->n_retries);
}
