/*
 * 10^6 entries, of 64 bytes in all, expire evenly within one second. Another process puts and gets 1000 keys of its own
 * all the while: its calls before that second, while all entries are there, beside its calls in that second and the
 * next 750 ms, in which their memory goes back; then, how much of all bytes is left. With a daemon the daemon gives it
 * back, in a private pool these calls do.
 */
#include <string.h>
#include <time.h>

#include "bench/web/web.h"

#define EXPIRY_ENTRIES 1000000
#define EXPIRY_KEYS 1000
#define EXPIRY_SIZE 128
#define EXPIRY_TTL_MS 6000 /* the first entry's: time to put all, and to measure the other calls before */
#define EXPIRY_SECOND_MS 1000
#define EXPIRY_QUIET_MS 1500 /* measured before the first one ends, and after */
#define EXPIRY_VALUE_SIZE 8

static int64_t now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void expiry_fill(Web *web, int64_t begin_ms, uint32_t n) {
        web_make_keys(web, "expires", n);
        for (uint32_t i = 0; i < n; i++) {
                int64_t end_ms = begin_ms + (int64_t) ((uint64_t) i * EXPIRY_SECOND_MS / n);
                StoreItem item = {
                        .number = i, .key = web->keys[i], .value = web->value, .size = EXPIRY_VALUE_SIZE
                };

                web->store->put_ttl(&item, (uint32_t) (end_ms - now_ms()));
        }
        if (now_ms() > begin_ms - EXPIRY_QUIET_MS)
                bench_fail("putting the entries took too long");
}

/* Calls from now until then, a get and a put in turn. */
static void expiry_calls(Web *web, Histogram *h, int64_t until_ms) {
        static Random random = { 1 };
        uint64_t begin;

        do {
                for (uint32_t i = 0; i < 1000; i++) {
                        uint32_t key = random_below(&random, EXPIRY_KEYS);
                        StoreItem item = {
                                .number = key, .key = web->keys[key], .value = web->value, .size = EXPIRY_SIZE
                        };

                        begin = clock_now();
                        (i % 2 ? web->store->put : web->store->get)(&item);
                        histogram_add(h, clock_now() - begin);
                }
        } while (now_ms() < until_ms);
}

/* Returns the 99.9th percentile. */
static double expiry_report(Web *web, const char *name, const Histogram *h) {
        bench_latencies(&web->bench, name, h);
        return clock_net_ns(&web->bench.clock, histogram_percentile(h, &web->bench.clock, 0.999));
}

typedef struct Expiry {
        Web *web;
        uint32_t n;
        int64_t begin_ms;
        Barrier barrier;
        Histogram *before, *during;
        uint64_t all_bytes, left_bytes;
} Expiry;

/* The first one's entries expire; the second one calls. */
static void expiry_member(void *arg, uint32_t member) {
        Expiry *shared = arg;
        Web *web = shared->web;

        if (member == 0) {
                expiry_fill(web, shared->begin_ms, shared->n);
                barrier_wait(&shared->barrier);
                return;
        }
        web_make_keys(web, "another", EXPIRY_KEYS);
        web_each(web, web->store->put, EXPIRY_KEYS, EXPIRY_SIZE);
        barrier_wait(&shared->barrier);
        shared->all_bytes = web->store->bytes();
        while (now_ms() < shared->begin_ms - EXPIRY_QUIET_MS)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        expiry_calls(web, shared->before, shared->begin_ms - 50);
        while (now_ms() < shared->begin_ms)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        expiry_calls(web, shared->during, shared->begin_ms + EXPIRY_SECOND_MS + EXPIRY_QUIET_MS / 2);
        shared->left_bytes = web->store->bytes();
}

void web_expiry(Web *web) {
        Expiry *shared = bench_reserve(sizeof(*shared));
        double before, during;

        if (!web->store->put_ttl)
                return;
        *shared = (Expiry){
                .web = web,
                .n = web->n < EXPIRY_ENTRIES ? (uint32_t) web->n : EXPIRY_ENTRIES,
                .begin_ms = now_ms() + EXPIRY_TTL_MS,
                .barrier = { .n = 2, .n_cpus = group_n_cpus() },
                .before = histogram_new(),
                .during = histogram_new(),
        };
        (void) group_run(2, true, expiry_member, shared);
        before = expiry_report(web, "before", shared->before);
        during = expiry_report(web, "during", shared->during);
        web_metric(web, during / before, "p99.9_over_before");
        web_metric(web, 100.0 * (double) shared->left_bytes / (double) shared->all_bytes, "left_percent");
}
