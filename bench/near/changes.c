/*
 * One process changes a key in the server, and waits until the workers of all pools have read the change. Each worker
 * reads, and sleeps for 100 microseconds, which the figures contain.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/near/near-rows.h"

#define KEY "p:change"
#define PAUSE_NS 100000
#define GAP_NS_MAX 3000000
#define LOST_NS UINT64_C(10000000000)

typedef struct Changes {
        NearBench *near_bench;
        uint32_t n_readers;
        uint64_t *sent_ns; /* by change */
        uint64_t *seen_ns; /* by change and reader; 0: not yet */
        Barrier *barrier;
} Changes;

static uint64_t now_ns(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static void sleep_ns(uint32_t ns) {
        (void) nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static uint64_t *seen_at(const Changes *changes, uint64_t change, uint32_t reader) {
        return &changes->seen_ns[change * changes->n_readers + reader];
}

static void read_changes(const Changes *changes, Reader *reader, uint32_t self) {
        char buffer[NEAR_VALUE] = "";
        uint64_t seen = 0, change;

        while (seen < changes->near_bench->n) {
                size_t n = reader_get(reader, KEY, buffer);

                memcpy(&change, buffer, n < sizeof(change) ? n : sizeof(change));
                if (n == sizeof(change) && change > seen)
                        while (seen < change)
                                shm_store_rel(seen_at(changes, ++seen, self), now_ns());
                else
                        sleep_ns(PAUSE_NS);
        }
}

static void make_changes(const Changes *changes, Reader *reader) {
        Random random;

        random_init(&random, 1);
        for (uint64_t change = 1; change <= changes->near_bench->n; change++) {
                sleep_ns(random_below(&random, GAP_NS_MAX));
                changes->sent_ns[change] = now_ns();
                freeReplyObject(
                        reader_ask(reader, REDIS_REPLY_STATUS, "SET " KEY " %b", &change, sizeof(change)));
                for (uint32_t i = 0; i < changes->n_readers; i++)
                        while (shm_load_acq(seen_at(changes, change, i)) == 0) {
                                if (now_ns() - changes->sent_ns[change] > LOST_NS)
                                        bench_fail("a worker does not see change %llu",
                                                   (unsigned long long) change);
                                sleep_ns(PAUSE_NS);
                        }
        }
}

/* Member 0 makes the changes. */
static void run_changes_member(void *arg, uint32_t member) {
        Changes *changes = arg;
        uint32_t n_pools = changes->near_bench->n_pools;
        Reader reader;

        reader_open(&reader, changes->near_bench, member % n_pools);
        if (member == 0)
                freeReplyObject(reader_ask(&reader, REDIS_REPLY_STATUS, "SET " KEY " begin"));
        reader_await_cover(&reader);
        barrier_wait(changes->barrier);
        if (member == 0)
                make_changes(changes, &reader);
        else
                read_changes(changes, &reader, member - 1);
        reader_close(&reader);
}

/* Milliseconds until every one has read a change, and until the last one has. */
static void report_times(NearBench *near_bench, const Changes *changes) {
        static const double fractions[] = { 0.5, 0.99, 1 };
        static const char *const names[] = { "p50_ms", "p99_ms", "max_ms" };
        uint64_t n = near_bench->n;
        double *last = bench_reserve(n * sizeof(*last));
        char name[32];

        for (uint64_t change = 1; change <= n; change++)
                for (uint32_t i = 0; i < changes->n_readers; i++) {
                        double ms = (double) (*seen_at(changes, change, i) - changes->sent_ns[change]) / 1e6;

                        if (ms > last[change - 1])
                                last[change - 1] = ms;
                }
        (void) bench_median(last, (uint32_t) n); /* sorts */
        for (uint32_t i = 0; i < 3; i++) {
                (void) snprintf(name, sizeof(name), "all_%s", names[i]);
                bench_metric(&near_bench->bench, name, last[(uint64_t) (fractions[i] * (double) (n - 1))]);
        }
}

void near_changes(NearBench *near_bench) {
        Changes changes = { .near_bench = near_bench,
                            .n_readers = near_bench->n_workers * near_bench->n_pools };

        if (near_bench->n_pools == 0)
                bench_fail("changes: no pool");
        changes.sent_ns = bench_reserve((near_bench->n + 1) * sizeof(uint64_t));
        changes.seen_ns = bench_reserve((near_bench->n + 1) * changes.n_readers * sizeof(uint64_t));
        changes.barrier = bench_reserve(sizeof(*changes.barrier));
        *changes.barrier = (Barrier){ .n = changes.n_readers + 1, .n_cpus = group_n_cpus() };
        (void) group_run(changes.n_readers + 1, true, run_changes_member, &changes);
        report_times(near_bench, &changes);
}
