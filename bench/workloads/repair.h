#pragma once
/*
 * Repair of a process that was killed with 256 slots cached in each of 8 classes, while 64 threads with caches
 * as full go on. Reported: the time of the repair, and the longest that an allocation and its free
 * took meanwhile; `before` is the longest without a repair, over 50 ms. With more threads than processors that is
 * mostly the time in which others run. Repair freezes nobody.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness/harness.h"
#include "shm/arena/geometry.h"

#ifdef BENCH_HAS_ATTACH
#define REPAIR_CACHED 256
#define REPAIR_BEFORE_NS 50e6

enum { REPAIR_BEFORE, REPAIR_UNDER_WAY, REPAIR_OVER };

typedef struct RepairShared {
        Bench *bench;
        uint32_t ready, phase;
        Barrier barrier;
        uint64_t ticks; /* the time of the repair */
        uint64_t n_cached; /* slots in all caches when the repair began */
        uint64_t left[8 * 2 * REPAIR_CACHED]; /* objects for which the victim's caches had no room */
        uint32_t n_left;
        uint64_t longest[GROUP_MEMBERS_MAX][REPAIR_OVER];
} RepairShared;

static const size_t repair_sizes[] = SHM_CLASSES_DEFAULT;

static void repair_fill_caches(void) {
        uint64_t handles[2 * REPAIR_CACHED];
        void *object;

        for (size_t i = 0; i < sizeof(repair_sizes) / sizeof(repair_sizes[0]); i++)
                for (uint32_t round = 0; round < 8; round++) {
                        for (uint32_t k = 0; k < 2 * REPAIR_CACHED; k++)
                                handles[k] = bench_alloc_or_fail(repair_sizes[i], &object);
                        for (uint32_t k = 0; k < 2 * REPAIR_CACHED; k++)
                                bench_free(handles[k]);
                }
}

/* Frees until a flush shows that a cache was full, then as many as the flush gave back. */
static void repair_fill_to_the_top(RepairShared *shared, size_t size) {
        uint64_t handles[2 * REPAIR_CACHED], n_cached, n_before;
        uint32_t n = 2 * REPAIR_CACHED;
        void *object;

        for (uint32_t k = 0; k < n; k++)
                handles[k] = bench_alloc_or_fail(size, &object);
        n_cached = bench_cached();
        do {
                n_before = n_cached;
                bench_free(handles[--n]);
                n_cached = bench_cached();
        } while (n > 0 && n_cached > n_before);
        for (uint64_t k = n_before - n_cached; k > 0 && n > 0; k--)
                bench_free(handles[--n]);
        while (n > 0)
                shared->left[shared->n_left++] = handles[--n];
}

/* A child fills its caches, and is killed. */
static void repair_make_dead(RepairShared *shared) {
        uint32_t turns = 0;
        pid_t pid = fork();

        if (pid == 0) {
                repair_fill_caches();
                for (size_t i = 0; i < sizeof(repair_sizes) / sizeof(repair_sizes[0]); i++)
                        repair_fill_to_the_top(shared, repair_sizes[i]);
                shm_store_rel(&shared->ready, 1);
                for (;;)
                        pause();
        }
        if (pid < 0)
                bench_fail("cannot fork");
        while (!shm_load_acq(&shared->ready))
                spin_once(&turns);
        if (kill(pid, SIGKILL) < 0 || waitpid(pid, NULL, 0) != pid)
                bench_fail("cannot kill a child");
}

static void repair_operate(RepairShared *shared, uint32_t member) {
        uint64_t begin = clock_now(), ticks;
        uint32_t phase = shm_load_acq(&shared->phase);
        void *object;

        bench_free(bench_alloc_or_fail(64, &object));
        ticks = clock_now() - begin;
        if (phase < REPAIR_OVER && ticks > shared->longest[member][phase])
                shared->longest[member][phase] = ticks;
}

/* The first member repairs. */
static void repair_reap(RepairShared *shared) {
        const Clock *clock = &shared->bench->clock;
        uint64_t begin = clock_now();

        while (clock_net_ns(clock, (double) (clock_now() - begin)) < REPAIR_BEFORE_NS)
                repair_operate(shared, 0);
        shared->n_cached = bench_cached();
        shm_store_rel(&shared->phase, REPAIR_UNDER_WAY);
        begin = clock_now();
        bench_reap();
        shared->ticks = clock_now() - begin;
        shm_store_rel(&shared->phase, REPAIR_OVER);
}

static void repair_member(void *arg, uint32_t member) {
        RepairShared *shared = arg;

        bench_thread_init();
        repair_fill_caches();
        barrier_wait(&shared->barrier);
        if (member == 0)
                repair_reap(shared);
        while (shm_load_acq(&shared->phase) != REPAIR_OVER)
                repair_operate(shared, member);
        bench_thread_deinit();
}

static void workload_repair(Bench *bench) {
        uint32_t n_members = bench_n_members(bench, GROUP_MEMBERS_MAX);
        RepairShared *shared = bench_reserve(sizeof(*shared));
        uint64_t longest[REPAIR_OVER] = {};

        if (bench->options.pool) {
                bench->not_applicable = true; /* with --pool the daemon repairs, at a time of its own */
                return;
        }
        shared->bench = bench;
        shared->barrier = (Barrier){ .n = n_members, .n_cpus = group_n_cpus() };
        bench->options.cache = "on";
        bench_init(bench, 768, n_members * 8 * 4 * REPAIR_CACHED);
        repair_make_dead(shared);
        bench_metric(bench, "dead_cached", (double) bench_cached());
        group_run(n_members, false, repair_member, shared);
        for (uint32_t i = 1; i < n_members; i++)
                for (uint32_t phase = 0; phase < REPAIR_OVER; phase++)
                        if (shared->longest[i][phase] > longest[phase])
                                longest[phase] = shared->longest[i][phase];
        for (uint32_t i = 0; i < shared->n_left; i++)
                bench_free(shared->left[i]);
        bench_metric(bench, "all_cached", (double) shared->n_cached);
        bench_metric(bench, "repair_ns", clock_net_ns(&bench->clock, (double) shared->ticks));
        bench_metric(bench, "longest_before_ns",
                     clock_net_ns(&bench->clock, (double) longest[REPAIR_BEFORE]));
        bench_metric(bench, "longest_meanwhile_ns",
                     clock_net_ns(&bench->clock, (double) longest[REPAIR_UNDER_WAY]));
}
#else
static void workload_repair(Bench *bench) {
        bench->not_applicable = true;
}
#endif
