/* Counters and limits: a random one of 1000 each time. And two processes that add to one counter. */
#include "bench/web/web.h"

#define COUNTERS 1000
#define COUNTER_SIZE 8

typedef struct Contended {
        Web *web;
        Barrier barrier;
        double ns[GROUP_MEMBERS_MAX][BENCH_ROUNDS];
} Contended;

static void contended_member(void *arg, uint32_t member) {
        Contended *shared = arg;
        Web *web = shared->web;
        uint64_t n = web->n / BENCH_ROUNDS + 1, begin;
        StoreItem item = { .key = web->keys[0], .value = web->value, .size = COUNTER_SIZE };

        if (!web->store->is_inherited)
                web->store->open(&web->options);
        web->store->add(&item);
        barrier_wait(&shared->barrier);
        for (uint32_t round = 0; round < BENCH_ROUNDS; round++) {
                begin = clock_now();
                for (uint64_t i = 0; i < n; i++)
                        web->store->add(&item);
                shared->ns[member][round] =
                        clock_net_ns(&web->bench.clock, (double) (clock_now() - begin)) / (double) n;
        }
}

/* One process's time for an add while another one does the same. */
static void counters_contended(Web *web) {
        Contended *shared = bench_reserve(sizeof(*shared));

        if (group_n_cpus() < 2)
                return;
        shared->web = web;
        shared->barrier = (Barrier){ .n = 2, .n_cpus = group_n_cpus() };
        (void) group_run(2, true, contended_member, shared);
        web_metric(web,
                   (bench_median(shared->ns[0], BENCH_ROUNDS) + bench_median(shared->ns[1], BENCH_ROUNDS)) /
                           2,
                   "contended_ns");
}

void web_counters(Web *web) {
        const Store *store = web->store;
        const StoreOperation add = { "add", false, store->add }, add_at = { "add_at", false, store->add_at };

        if (!store->add)
                return;
        web_make_keys(web, "counter", COUNTERS);
        web_each(web, store->add, COUNTERS, COUNTER_SIZE);
        web_metric(web, web_measure(web, &add, COUNTERS, COUNTER_SIZE, web->n), "add_ns");
        if (store->add_at) {
                web_each(web, store->find_counter, COUNTERS, COUNTER_SIZE);
                web_metric(web, web_measure(web, &add_at, COUNTERS, COUNTER_SIZE, web->n), "add_at_ns");
        }
        counters_contended(web);
}

void web_limits(Web *web) {
        const StoreOperation limit = { "limit", false, web->store->limit };

        if (!web->store->limit)
                return;
        web_make_keys(web, "limited", COUNTERS);
        web_each(web, web->store->limit, COUNTERS, COUNTER_SIZE);
        web_metric(web, web_measure(web, &limit, COUNTERS, COUNTER_SIZE, web->n), "limit_ns");
}
