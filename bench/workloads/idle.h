#pragma once
/*
 * Slots that idle threads keep: 63 threads that once had an object of each of eight classes in each of 15 epochs, and
 * sleep since. Reported: the memory of their slabs at once, and 10 s later. The pool's maintainer takes it back: the
 * daemon, or in a private pool the thread that does control work, here once a second.
 */
#include <time.h>

#include "bench/harness/harness.h"

#define IDLE_THREADS (GROUP_MEMBERS_MAX - 1) /* and one that looks */
#define IDLE_EPOCHS 15
#define IDLE_SECONDS 10

#ifdef BENCH_HAS_EPOCHS
typedef struct Idle {
        Bench *bench;
        Barrier barrier;
        uint32_t epochs[IDLE_EPOCHS];
        uint32_t is_over;
} Idle;

static void idle_sleep(void) {
        (void) nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
}

/* A pair in each epoch and class, then nothing. */
static void idle_use(Idle *idle) {
        static const size_t sizes[] = { 64, 96, 128, 192, 256, 384, 512, 768 };
        void *object;

        for (uint32_t epoch = 0; epoch < IDLE_EPOCHS; epoch++)
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                        bench_free(bench_alloc_in(idle->epochs[epoch], sizes[i], &object));
        barrier_wait(&idle->barrier);
        while (!shm_load_acq(&idle->is_over))
                idle_sleep();
}

static void idle_look(Idle *idle) {
        Bench *bench = idle->bench;
        uint64_t n_seconds = bench_n_ops(bench, IDLE_SECONDS, 1);

        barrier_wait(&idle->barrier);
        bench_metric(bench, "stranded_before_bytes", (double) bench_held());
        bench_metric(bench, "stranded_before_slots", (double) bench_cached());
        for (uint32_t i = 0; i < n_seconds; i++) {
                idle_sleep();
                if (!bench->options.pool)
                        bench_reap();
        }
        bench_metric(bench, "stranded_bytes", (double) bench_held());
        bench_metric(bench, "stranded_slots", (double) bench_cached());
        shm_store_rel(&idle->is_over, 1);
}

static void idle_member(void *arg, uint32_t member) {
        if (member == 0)
                idle_look(arg);
        else
                idle_use(arg);
}

static void workload_idle(Bench *bench) {
        Idle *idle = bench_reserve(sizeof(*idle));

        idle->bench = bench;
        idle->barrier = (Barrier){ .n = IDLE_THREADS + 1, .n_cpus = group_n_cpus() };
        (void) bench_n_members(bench, IDLE_THREADS);
        bench_init(bench, 768, 1 << 17);
        for (uint32_t i = 0; i < IDLE_EPOCHS; i++)
                idle->epochs[i] = i == 0 ? bench_epoch_current() : bench_epoch_reserve();
        (void) group_run(IDLE_THREADS + 1, false, idle_member, idle);
}
#else
static void workload_idle(Bench *bench) {
        bench->not_applicable = true;
}
#endif
