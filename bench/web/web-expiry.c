/*
 * 10^6 entries, which take 64 bytes each, expire evenly within one second. Another process puts and gets 1000 keys of
 * its own all the while. Its calls are measured in three phases: in a second before, while all entries are there; in
 * that second; and in the next 750 ms, after which the memory of the entries has to be back. Then the workload reports
 * how much of it is left. With a daemon the daemon gives it back, in a private pool these calls do.
 *
 * The process begins to call long before its calls count: in its first 250 ms p99.9 is about twice as high as
 * a second later. Other guests of the machine disturb moments, so the phases are compared by the median p99.9 of their
 * quarters of a second, within a round, and the rounds' median counts: with 1000 entries in place of 10^6, whole phases
 * of single rounds gave 0.4 to 2.3.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "bench/web/web.h"

#define EXPIRY_ENTRIES 1000000
#define EXPIRY_KEYS 1000
#define EXPIRY_SIZE 128
#define EXPIRY_ROUNDS 3
#define EXPIRY_TTL_MS 5000 /* the first entry's: time to put all, and to measure the other calls before */
#define EXPIRY_WARM_MS 1000
#define EXPIRY_SECOND_MS 1000
#define EXPIRY_PAUSE_MS 50
#define EXPIRY_WINDOW_MS 250
#define EXPIRY_WINDOWS 4 /* a phase has at most so many */
#define EXPIRY_VALUE_SIZE 8

static int64_t now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t expiry_first_call_ms(int64_t begin_ms) {
        return begin_ms - EXPIRY_PAUSE_MS - EXPIRY_SECOND_MS - EXPIRY_WARM_MS;
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
        if (now_ms() > expiry_first_call_ms(begin_ms))
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

typedef enum Phase {
        WARM_UP, /* not reported */
        BEFORE,
        DURING,
        AFTER,
        N_PHASES,
} Phase;

static const struct {
        const char *name;
        uint32_t n_windows;
} phases[N_PHASES] = {
        [WARM_UP] = { NULL, EXPIRY_WARM_MS / EXPIRY_WINDOW_MS },
        [BEFORE] = { "before", EXPIRY_SECOND_MS / EXPIRY_WINDOW_MS },
        [DURING] = { "during", EXPIRY_SECOND_MS / EXPIRY_WINDOW_MS },
        [AFTER] = { "after", 3 },
};

typedef struct Expiry {
        Web *web;
        uint32_t n;
        int64_t begin_ms;
        Barrier barrier;
        Histogram *calls[N_PHASES][EXPIRY_WINDOWS];
        uint64_t all_bytes, left_bytes;
} Expiry;

static void sleep_until(int64_t ms) {
        while (now_ms() < ms)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void expiry_phase(Expiry *shared, Phase phase, int64_t begin_ms) {
        for (uint32_t i = 0; i < phases[phase].n_windows; i++)
                expiry_calls(shared->web, shared->calls[phase][i], begin_ms + (i + 1) * EXPIRY_WINDOW_MS);
}

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
        sleep_until(expiry_first_call_ms(shared->begin_ms));
        expiry_phase(shared, WARM_UP, expiry_first_call_ms(shared->begin_ms));
        expiry_phase(shared, BEFORE, expiry_first_call_ms(shared->begin_ms) + EXPIRY_WARM_MS);
        sleep_until(shared->begin_ms);
        expiry_phase(shared, DURING, shared->begin_ms);
        expiry_phase(shared, AFTER, shared->begin_ms + EXPIRY_SECOND_MS);
        shared->left_bytes = web->store->bytes();
}

static void expiry_round(Web *web, Expiry *shared) {
        *shared = (Expiry){
                .web = web,
                .n = web->n < EXPIRY_ENTRIES ? (uint32_t) web->n : EXPIRY_ENTRIES,
                .begin_ms = now_ms() + EXPIRY_TTL_MS,
                .barrier = { .n = 2, .n_cpus = group_n_cpus() },
        };
        for (Phase p = 0; p < N_PHASES; p++)
                for (uint32_t i = 0; i < phases[p].n_windows; i++)
                        shared->calls[p][i] = histogram_new();
        (void) group_run(2, true, expiry_member, shared);
}

/* Adds the phase's calls to all rounds' ones. Returns the median p99.9 of its windows, in nanoseconds. */
static double expiry_tail(const Expiry *shared, Phase phase, Histogram *all) {
        const Clock *clock = &shared->web->bench.clock;
        double ns[EXPIRY_WINDOWS];

        for (uint32_t i = 0; i < phases[phase].n_windows; i++) {
                histogram_merge(all, shared->calls[phase][i]);
                ns[i] = clock_net_ns(clock, histogram_percentile(shared->calls[phase][i], clock, 0.999));
        }
        return bench_median(ns, phases[phase].n_windows);
}

void web_expiry(Web *web) {
        Expiry *shared = bench_reserve(sizeof(*shared));
        uint32_t n_rounds = web->n_wanted ? 1 : EXPIRY_ROUNDS;
        double ratios[EXPIRY_ROUNDS], tails[N_PHASES], left = 0;
        Histogram *all[N_PHASES];

        if (!web->store->put_ttl)
                return;
        for (Phase p = 0; p < N_PHASES; p++)
                all[p] = histogram_new();
        for (uint32_t round = 0; round < n_rounds; round++) {
                expiry_round(web, shared);
                for (Phase p = BEFORE; p < N_PHASES; p++)
                        tails[p] = expiry_tail(shared, p, all[p]);
                ratios[round] = fmax(tails[DURING], tails[AFTER]) / tails[BEFORE];
                left = fmax(left, (double) shared->left_bytes / (double) shared->all_bytes);
        }
        for (Phase p = BEFORE; p < N_PHASES; p++)
                bench_latencies(&web->bench, phases[p].name, all[p]);
        web_metric(web, bench_median(ratios, n_rounds), "p99.9_over_before");
        web_metric(web, 100 * left, "left_percent");
}
