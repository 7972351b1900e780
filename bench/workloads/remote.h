#pragma once
/*
 * A producer allocates and writes objects and passes their handles through a ring in shared memory; a
 * consumer on the other processor looks them up, reads them, and frees them.
 *
 * free_ns is the consumer's time in free alone, by chunks whose objects it has read before;
 * pipeline_ns is the time of one object from end to end while both work.
 */
#include "bench/harness/harness.h"

#define REMOTE_RING 4096
#define REMOTE_CHUNK 32

typedef struct RemoteShared {
        Bench *bench;
        uint64_t n; /* a multiple of REMOTE_CHUNK */
        Barrier barrier;
        uint64_t head __attribute__((aligned(64))); /* the producer's */
        uint64_t tail __attribute__((aligned(64))); /* the consumer's */
        double free_ns __attribute__((aligned(64)));
        double all_ns;
        uint64_t ring[REMOTE_RING];
} RemoteShared;

static void remote_wait_until(const uint64_t *word, uint64_t least) {
        uint32_t turns = 0;

        while (shm_load_acq(word) < least)
                spin_once(&turns);
}

static void remote_produce(RemoteShared *shared, uint64_t n) {
        uint64_t head = shared->head;
        void *object;

        for (uint64_t end = head + n; head < end; head += REMOTE_CHUNK) {
                if (head >= REMOTE_RING)
                        remote_wait_until(&shared->tail, head + REMOTE_CHUNK - REMOTE_RING);
                for (uint64_t i = head; i < head + REMOTE_CHUNK; i++) {
                        uint64_t handle = bench_alloc_or_fail(shared->bench->options.size, &object);

                        bench_touch(object, i);
                        shared->ring[i % REMOTE_RING] = handle;
                }
                shm_store_rel(&shared->head, head + REMOTE_CHUNK);
        }
}

/* Finds the object by its handle, and reads the bytes that the producer wrote. */
static inline void remote_read(uint64_t handle, uint64_t value) {
        const volatile uint64_t *object = bench_get(handle);

        if (bench_unlikely(!object || *object != value))
                bench_fail("an object does not hold what its producer wrote");
}

static double remote_consume(RemoteShared *shared, uint64_t n) {
        uint64_t tail = shared->tail, handles[REMOTE_CHUNK], begin;
        double free_ns = 0;

        for (uint64_t end = tail + n; tail < end; tail += REMOTE_CHUNK) {
                remote_wait_until(&shared->head, tail + REMOTE_CHUNK);
                for (uint32_t i = 0; i < REMOTE_CHUNK; i++)
                        handles[i] = shared->ring[(tail + i) % REMOTE_RING];
                shm_store_rel(&shared->tail, tail + REMOTE_CHUNK);
                for (uint32_t i = 0; i < REMOTE_CHUNK; i++)
                        remote_read(handles[i], tail + i);
                begin = clock_now();
                for (uint32_t i = 0; i < REMOTE_CHUNK; i++)
                        bench_free(handles[i]);
                free_ns += clock_net_ns(&shared->bench->clock, (double) (clock_now() - begin));
        }
        return free_ns;
}

static void remote_member(void *arg, uint32_t member) {
        RemoteShared *shared = arg;
        uint64_t begin, warm = 16 * REMOTE_RING;

        bench_prefault(shared, sizeof(*shared));
        bench_thread_init();
        if (member == 0)
                remote_produce(shared, warm);
        else
                (void) remote_consume(shared, warm);
        barrier_wait(&shared->barrier);
        begin = clock_now();
        if (member == 0) {
                remote_produce(shared, shared->n);
        } else {
                shared->free_ns = remote_consume(shared, shared->n);
                shared->all_ns = clock_net_ns(&shared->bench->clock, (double) (clock_now() - begin));
        }
        barrier_wait(&shared->barrier);
        bench_thread_deinit();
}

static void workload_remote(Bench *bench) {
        RemoteShared *shared = bench_reserve(sizeof(*shared));

        bench->options.n_members = 2;
        (void) bench_n_members(bench, 2);
        shared->bench = bench;
        shared->n = bench_n_ops(bench, 4000000, 0) / REMOTE_CHUNK * REMOTE_CHUNK + REMOTE_CHUNK;
        shared->barrier = (Barrier){ .n = 2, .n_cpus = group_n_cpus() };
        bench_init(bench, bench->options.size, REMOTE_RING + 2 * REMOTE_CHUNK);
        if (bench->not_applicable)
                return;
        bench_metric(bench, "processor_share", group_run(2, bench->processes, remote_member, shared));
        bench_metric(bench, "free_ns", shared->free_ns / (double) shared->n);
        bench_metric(bench, "pipeline_ns", shared->all_ns / (double) shared->n);
}
