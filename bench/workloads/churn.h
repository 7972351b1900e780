#pragma once
/*
 * churn: a random one of 200,000 places is filled if it is empty, and emptied if it is not, so that about
 * 100,000 objects live. Allocations and frees come in random order: were each free followed by an
 * allocation, a cache would never run empty or full.
 *
 * churn_fixed: the published workload. 1,000,000 objects of one size are allocated and as many freed: half
 * of the frees pick one of the 16 youngest objects, the others any of the 100,000 live ones.
 *
 * Every operation is measured by itself. The objects exist, and a tenth of the operations have run, before
 * the first one counts.
 */
#include "bench/harness/harness.h"
#include "bench/workloads/latency.h"

#define CHURN_LIVE 100000
#define CHURN_RECENT 16

typedef struct Churn {
        Latencies latencies;
        Random random;
        size_t size;
        uint32_t n_live;
        uint64_t n_steps;
        uint64_t *handles; /* [2 * n_live]; 0: none */
        uint32_t youngest[CHURN_RECENT]; /* indexes of live objects */
} Churn;

static void churn_steps(Churn *c, uint64_t n) {
        for (uint64_t i = 0; i < n; i++) {
                uint64_t *handle = &c->handles[random_below(&c->random, 2 * c->n_live)];

                if (*handle) {
                        latencies_free(&c->latencies, *handle);
                        *handle = 0;
                } else {
                        *handle = latencies_alloc(&c->latencies, c->size, i);
                }
        }
}

/* The new object takes the freed one's place; it is allocated first, as the published workload did. */
static void churn_fixed_steps(Churn *c, uint64_t n) {
        for (uint64_t i = 0; i < n; i++) {
                uint64_t handle = latencies_alloc(&c->latencies, c->size, i), old;
                uint32_t victim = random_below(&c->random, 2 * c->n_live);

                if (victim >= c->n_live)
                        victim = c->youngest[victim % CHURN_RECENT];
                old = c->handles[victim];
                c->handles[victim] = handle;
                c->youngest[i % CHURN_RECENT] = victim;
                latencies_free(&c->latencies, old);
        }
}

static void churn_init(Churn *c, Bench *bench, uint64_t n_steps) {
        void *object;

        *c = (Churn){
                .size = bench->options.size,
                .n_live = (uint32_t) bench_n_live(bench, CHURN_LIVE),
                .n_steps = bench_n_ops(bench, n_steps, 1000),
        };
        c->handles = bench_reserve(2 * c->n_live * sizeof(c->handles[0]));
        random_init(&c->random, 1);
        latencies_init(&c->latencies, &bench->clock);
        for (uint32_t i = 0; i < c->n_live; i++) {
                c->handles[i] = bench_alloc_or_fail(c->size, &object);
                bench_touch(object, i);
        }
}

static void churn_run(Bench *bench, uint64_t n_steps, void (*steps)(Churn *, uint64_t)) {
        Churn c;

        (void) bench_n_members(bench, 1);
        bench_init(bench, bench->options.size, 2 * bench_n_live(bench, CHURN_LIVE));
        if (bench->not_applicable)
                return;
        group_pin(0);
        bench_thread_init();
        churn_init(&c, bench, n_steps);
        steps(&c, c.n_steps / 10);
        latencies_begin(&c.latencies);
        steps(&c, c.n_steps);
        latencies_end(&c.latencies);
        latencies_report(&c.latencies, bench);
        bench_thread_deinit();
}

static void workload_churn(Bench *bench) {
        churn_run(bench, 4000000, churn_steps);
}

static void workload_churn_fixed(Bench *bench) {
        churn_run(bench, 1000000, churn_fixed_steps);
}
