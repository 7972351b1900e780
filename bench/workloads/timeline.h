#pragma once
/*
 * Memory over time: waves of 64 MiB of objects of mixed sizes. One in 50 lives on to the end, the others are freed
 * when the wave is over. With epochs, the long-lived objects are in an epoch of their own, and the wave's epoch is
 * closed, as a program would do. With --policy never the allocator is told nothing. Series "resident":
 * milliseconds, MiB.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/harness/harness.h"
#include "bench/workloads/mix.h"

#define TIMELINE_WAVES 6
#define TIMELINE_BYTES (UINT64_C(64) << 20)
#define TIMELINE_OBJECTS (TIMELINE_BYTES / 103)
#define TIMELINE_STAYS 50
#define TIMELINE_SAMPLES 16 /* in each half of a wave */

#ifdef BENCH_HAS_SIZES
typedef struct Timeline {
        Bench *bench;
        Random random;
        bool tells;
        uint32_t kept_epoch;
        uint64_t begin, before;
        uint64_t n, n_kept;
        uint64_t kept_bytes;
        uint64_t *handles, *kept;
} Timeline;

static uint64_t timeline_sample(Timeline *t) {
        uint64_t resident = bench_resident() - t->before;

        bench_point(t->bench, "resident",
                    (double) (clock_now() - t->begin) * t->bench->clock.ns_per_tick / 1e6,
                    (double) resident / 1048576);
        return resident;
}

static uint64_t timeline_keep(Timeline *t, size_t size, void **ret_object) {
#ifdef BENCH_HAS_EPOCHS
        if (t->tells)
                return bench_alloc_in(t->kept_epoch, size, ret_object);
#endif
        return bench_alloc_or_fail(size, ret_object);
}

static void timeline_fill(Timeline *t) {
        uint64_t bytes = 0, sampled = 0;
        void *object;

        for (t->n = 0; bytes < TIMELINE_BYTES;) {
                size_t size = mix_size(&t->random);

                bytes += size;
                if (random_below(&t->random, TIMELINE_STAYS) == 0) {
                        t->kept[t->n_kept++] = timeline_keep(t, size, &object);
                        t->kept_bytes += size;
                } else {
                        t->handles[t->n++] = bench_alloc_or_fail(size, &object);
                }
                memset(object, 1, size);
                if (bytes - sampled > TIMELINE_BYTES / TIMELINE_SAMPLES) {
                        (void) timeline_sample(t);
                        sampled = bytes;
                }
        }
}

/* Returns the resident bytes afterwards. */
static uint64_t timeline_empty(Timeline *t) {
        for (uint64_t i = 0; i < t->n; i++) {
                bench_free(t->handles[i]);
                if ((i + 1) % (t->n / TIMELINE_SAMPLES) == 0)
                        (void) timeline_sample(t);
        }
#ifdef BENCH_HAS_EPOCHS
        if (t->tells)
                bench_epoch_close(bench_epoch_advance());
#endif
        return timeline_sample(t);
}

static void workload_timeline(Bench *bench) {
        Timeline t = { .bench = bench };
        uint64_t n = TIMELINE_OBJECTS, valley = 0;

        (void) bench_n_members(bench, 1);
        (void) setenv("BENCH_RETAIN", "16777216", 0); /* the default of the library */
        t.tells = !bench->options.policy || strcmp(bench->options.policy, "never") != 0;
        t.handles = bench_reserve(n * sizeof(t.handles[0]));
        t.kept = bench_reserve(n * sizeof(t.kept[0]));
        random_init(&t.random, 1);
        bench_init(bench, MIX_LARGEST, n);
        group_pin(0);
        t.before = bench->processes ? 0 : bench_resident();
        bench_thread_init();
#ifdef BENCH_HAS_EPOCHS
        t.kept_epoch = bench_epoch_reserve();
#endif
        t.begin = clock_now();
        for (uint32_t i = 0; i < TIMELINE_WAVES; i++) {
                timeline_fill(&t);
                valley = timeline_empty(&t);
        }
        bench_metric(bench, "valley_bytes", (double) valley);
        bench_metric(bench, "valley_over_live", (double) valley / (double) t.kept_bytes);
        bench_metric(bench, "waves_ms",
                     (double) (clock_now() - t.begin) * bench->clock.ns_per_tick / 1e6 / TIMELINE_WAVES);
        for (uint64_t i = 0; i < t.n_kept; i++)
                bench_free(t.kept[i]);
        bench_metric(bench, "freed_bytes", (double) timeline_sample(&t));
        bench_thread_deinit();
}
#else
static void workload_timeline(Bench *bench) {
        bench->not_applicable = true;
}
#endif
