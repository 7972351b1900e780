#pragma once
/*
 * Requests: threads take them in turn; each allocates and writes about 52 KB of objects of mixed sizes, and
 * frees them. A request is measured from its first object to its last, closing included where it closes:
 *
 *      never      no epoch is closed
 *      batch      the thread that ends the 256th request, or the 512th, ..., closes the current epoch
 *      request    each request ends with closing the current epoch
 *      control    writes as much, twice, to memory that has its pages: the machine's own time
 *
 * A request takes more than a millisecond mostly because its thread is preempted: `own_spikes_over_1ms` counts those in
 * which it was not.
 */
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/harness/harness.h"
#include "bench/workloads/mix.h"

#define REQUESTS 1200
#define REQUESTS_THREADS 4
#define REQUESTS_EACH 100000 /* a thread, with more than REQUESTS_THREADS threads */
#define REQUEST_BYTES 52000
#define REQUEST_OBJECTS 512
#define REQUESTS_BATCH 256
#define REQUESTS_TRIES 100000 /* for one allocation, which may meet an epoch that has just been closed */
#define REQUESTS_SPIKE_NS 1e6

typedef struct RequestsShared {
        Bench *bench;
        uint64_t n;
        bool is_control;
        uint32_t close_every; /* 0: never */
        Barrier barrier;
        uint64_t n_taken __attribute__((aligned(64)));
        pthread_mutex_t closing;
        Histogram *times[GROUP_MEMBERS_MAX];
        uint64_t n_spikes[GROUP_MEMBERS_MAX];
        uint64_t n_own_spikes[GROUP_MEMBERS_MAX]; /* in which the thread was not preempted */
        uint8_t *control[GROUP_MEMBERS_MAX]; /* memory to write to */
} RequestsShared;

static uint64_t requests_alloc(size_t size, void **ret_object) {
        uint64_t handle = 0;

        for (uint32_t i = 0; i < REQUESTS_TRIES && handle == 0; i++)
                handle = bench_alloc(size, ret_object);
        if (handle == 0)
                bench_fail("allocation failed %d times", REQUESTS_TRIES);
        return handle;
}

static void requests_close(RequestsShared *shared) {
#ifdef BENCH_HAS_EPOCHS
        pthread_mutex_lock(&shared->closing);
        bench_epoch_close(bench_epoch_advance());
        pthread_mutex_unlock(&shared->closing);
#else
        (void) shared;
#endif
}

static void requests_one(RequestsShared *shared, uint32_t member, Random *random, uint64_t number) {
        uint64_t handles[REQUEST_OBJECTS];
        uint32_t n = 0, bytes = 0;
        void *object;

        while (bytes < REQUEST_BYTES && n < REQUEST_OBJECTS) {
                size_t size = mix_size(random);

                if (shared->is_control)
                        object = shared->control[member] + bytes;
                else
                        handles[n++] = requests_alloc(size, &object);
                for (uint32_t i = 0; i < (shared->is_control ? 2 : 1); i++) {
                        memset(object, (int) number, size);
                        __asm__ volatile("" : : "r"(object) : "memory");
                }
                bytes += (uint32_t) size;
        }
        for (uint32_t i = 0; i < n; i++)
                bench_free(handles[i]);
        if (shared->close_every && (number + 1) % shared->close_every == 0)
                requests_close(shared);
}

static uint64_t requests_n_preempted(void) {
        struct rusage usage;

        return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t) usage.ru_nivcsw : 0;
}

static void requests_member(void *arg, uint32_t member) {
        RequestsShared *shared = arg;
        double spike = REQUESTS_SPIKE_NS / shared->bench->clock.ns_per_tick;
        uint64_t number, begin, ticks, n_preempted;
        Random random;

        random_init(&random, member);
        bench_thread_init();
        barrier_wait(&shared->barrier);
        while ((number = shm_add_acqrel(&shared->n_taken, 1)) < shared->n) {
                n_preempted = requests_n_preempted();
                begin = clock_now();
                requests_one(shared, member, &random, number);
                ticks = clock_now() - begin;
                histogram_add(shared->times[member], ticks);
                if ((double) ticks <= spike)
                        continue;
                shared->n_spikes[member]++;
                shared->n_own_spikes[member] += requests_n_preempted() == n_preempted;
        }
        bench_thread_deinit();
}

/* False: this allocator has no epochs. */
static bool requests_set_policy(RequestsShared *shared, const char *policy) {
        shared->is_control = strcmp(policy, "control") == 0;
        if (strcmp(policy, "batch") == 0)
                shared->close_every = REQUESTS_BATCH;
        else if (strcmp(policy, "request") == 0)
                shared->close_every = 1;
#ifndef BENCH_HAS_EPOCHS
        return shared->close_every == 0;
#else
        return true;
#endif
}

static void requests_report(RequestsShared *shared, uint32_t n_members) {
        uint64_t n_spikes = shared->n_spikes[0], n_own = shared->n_own_spikes[0];

        for (uint32_t i = 1; i < n_members; i++) {
                histogram_merge(shared->times[0], shared->times[i]);
                n_spikes += shared->n_spikes[i];
                n_own += shared->n_own_spikes[i];
        }
        bench_latencies(shared->bench, "request", shared->times[0]);
        bench_metric(shared->bench, "spikes_over_1ms", (double) n_spikes);
        bench_metric(shared->bench, "own_spikes_over_1ms", (double) n_own);
}

static void workload_requests(Bench *bench) {
        const char *policy = bench->options.policy ? bench->options.policy : "never";
        RequestsShared *shared = bench_reserve(sizeof(*shared));
        uint32_t n_members = bench_n_members(bench, REQUESTS_THREADS);

        shared->bench = bench;
        shared->n = bench_n_ops(bench, n_members > REQUESTS_THREADS ? n_members * REQUESTS_EACH : REQUESTS,
                                n_members);
        shared->barrier = (Barrier){ .n = n_members, .n_cpus = group_n_cpus() };
        pthread_mutex_init(&shared->closing, NULL);
        for (uint32_t i = 0; i < n_members; i++) {
                shared->times[i] = histogram_new();
                shared->control[i] = bench_reserve(REQUEST_BYTES + MIX_LARGEST);
        }
        bench_init(bench, MIX_LARGEST, n_members * REQUEST_OBJECTS);
        bench->not_applicable |= !requests_set_policy(shared, policy);
        if (bench->not_applicable)
                return;
        (void) group_run(n_members, false, requests_member, shared);
        requests_report(shared, n_members);
        bench_metric(bench, "resident_bytes", (double) bench_resident());
}
