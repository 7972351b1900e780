#pragma once
/*
 * N objects allocated, then freed: by one call for each object, and by one call for all of them. The two take turns, so
 * that a disturbance meets both. Objects are not touched, since calls for many of them return handles alone.
 *
 * And handles in random order, of many slabs, each of which is freed once: the cost of one call beside frees one
 * by one, where a call has little to gain.
 */
#include "bench/harness/harness.h"

#ifdef BENCH_HAS_BATCHES
#define BATCH_CALLS_MAX 256
#define SCATTERED 65536 /* objects */
#define SCATTERED_CALL 1024 /* objects in a call */

typedef struct BatchCalls {
        Bench *bench;
        uint64_t handles[BATCH_CALLS_MAX];
        uint64_t scattered[SCATTERED];
} BatchCalls;

static double single_calls_ns(BatchCalls *calls, uint32_t n, uint64_t n_turns) {
        size_t size = calls->bench->options.size;
        uint64_t begin = clock_now();
        void *object;

        for (uint64_t turn = 0; turn < n_turns; turn++) {
                for (uint32_t i = 0; i < n; i++)
                        calls->handles[i] = bench_alloc_or_fail(size, &object);
                for (uint32_t i = 0; i < n; i++)
                        bench_free(calls->handles[i]);
        }
        return clock_net_ns(&calls->bench->clock, (double) (clock_now() - begin)) / (double) (n_turns * n);
}

static double batch_calls_ns(BatchCalls *calls, uint32_t n, uint64_t n_turns) {
        size_t size = calls->bench->options.size;
        uint64_t begin = clock_now();

        for (uint64_t turn = 0; turn < n_turns; turn++) {
                bench_alloc_batch(size, calls->handles, n);
                bench_free_batch(calls->handles, n);
        }
        return clock_net_ns(&calls->bench->clock, (double) (clock_now() - begin)) / (double) (n_turns * n);
}

static void batch_calls_measure(BatchCalls *calls, uint32_t n) {
        uint64_t n_turns = bench_n_ops(calls->bench, 2000000, 0) / n / BENCH_ROUNDS + 1;
        double single[BENCH_ROUNDS], batch[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
        char name[32];

        (void) single_calls_ns(calls, n, n_turns);
        (void) batch_calls_ns(calls, n, n_turns);
        for (int i = 0; i < BENCH_ROUNDS; i++) {
                single[i] = single_calls_ns(calls, n, n_turns);
                batch[i] = batch_calls_ns(calls, n, n_turns);
                ratio[i] = batch[i] / single[i];
        }
        (void) snprintf(name, sizeof(name), "single_%u_ns", n);
        bench_metric(calls->bench, name, bench_median(single, BENCH_ROUNDS));
        (void) snprintf(name, sizeof(name), "batch_%u_ns", n);
        bench_metric(calls->bench, name, bench_median(batch, BENCH_ROUNDS));
        (void) snprintf(name, sizeof(name), "batch_%u_over_single", n);
        bench_metric(calls->bench, name, bench_median(ratio, BENCH_ROUNDS));
}

static double scattered_free_ns(BatchCalls *calls, Random *random, uint32_t n, uint32_t n_call) {
        uint64_t begin, *handles = calls->scattered;

        bench_alloc_batch(calls->bench->options.size, handles, n);
        for (uint32_t i = n - 1; i > 0; i--) {
                uint32_t k = random_below(random, i + 1);
                uint64_t handle = handles[i];

                handles[i] = handles[k];
                handles[k] = handle;
        }
        begin = clock_now();
        for (uint32_t i = 0; i < n; i += n_call)
                if (n_call > 1)
                        bench_free_batch(&handles[i], n_call);
                else
                        bench_free(handles[i]);
        return clock_net_ns(&calls->bench->clock, (double) (clock_now() - begin)) / n;
}

static void scattered_measure(BatchCalls *calls) {
        uint32_t n = (uint32_t) bench_n_ops(calls->bench, SCATTERED, SCATTERED_CALL);
        double single[BENCH_ROUNDS], batch[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
        Random random;

        n = n < SCATTERED ? n / SCATTERED_CALL * SCATTERED_CALL : SCATTERED;
        random_init(&random, 1);
        (void) scattered_free_ns(calls, &random, n, 1);
        for (int i = 0; i < BENCH_ROUNDS; i++) {
                single[i] = scattered_free_ns(calls, &random, n, 1);
                batch[i] = scattered_free_ns(calls, &random, n, SCATTERED_CALL);
                ratio[i] = batch[i] / single[i];
        }
        bench_metric(calls->bench, "scattered_single_ns", bench_median(single, BENCH_ROUNDS));
        bench_metric(calls->bench, "scattered_batch_ns", bench_median(batch, BENCH_ROUNDS));
        bench_metric(calls->bench, "scattered_over_single", bench_median(ratio, BENCH_ROUNDS));
}

static void batch_calls_member(void *arg, uint32_t member) {
        (void) member;
        bench_thread_init();
        for (uint32_t n = 16; n <= BATCH_CALLS_MAX; n *= 4)
                batch_calls_measure(arg, n);
        scattered_measure(arg);
        bench_thread_deinit();
}
#endif

static void workload_batch_calls(Bench *bench) {
#ifdef BENCH_HAS_BATCHES
        BatchCalls *calls = bench_reserve(sizeof(*calls));

        calls->bench = bench;
        (void) bench_n_members(bench, 1);
        bench_init(bench, bench->options.size, SCATTERED);
        bench_metric(bench, "processor_share", group_run(1, bench->processes, batch_calls_member, calls));
#else
        bench->not_applicable = true;
#endif
}
