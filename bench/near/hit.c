/* A hit of a near cache, beside a get of a map with the same keys and values: rounds alternate. */
#include <stdio.h>
#include <string.h>

#include <tslab_map.h>

#include "bench/near/near-rows.h"

#define KEYS 10000
#define ROUNDS 11

typedef struct Hit {
        Reader reader;
        struct tslab_map *map;
        char (*keys)[NEAR_KEY_SIZE];
        char buffer[NEAR_VALUE];
} Hit;

typedef void (*HitFunction)(Hit *hit, const char *key);

static void get_nothing(Hit *hit, const char *key) {
        __asm__ volatile("" : : "r"(hit), "r"(key) : "memory");
}

static void get_from_map(Hit *hit, const char *key) {
        if (tslab_map_get(hit->map, key, NEAR_KEY_SIZE - 1, hit->buffer, NEAR_VALUE, NULL) != NEAR_VALUE)
                bench_fail("%s is not in the map", key);
}

static void get_from_near(Hit *hit, const char *key) {
        struct tslab_near_claim claim;

        if (tslab_near_get(hit->reader.near, key, NEAR_KEY_SIZE - 1, hit->buffer, NEAR_VALUE, 0, &claim) !=
            NEAR_VALUE)
                bench_fail("%s is not covered", key);
}

static void fill_both(Hit *hit) {
        struct tslab_near_claim claim;

        for (uint32_t i = 0; i < KEYS; i++) {
                const char *key = hit->keys[i];

                (void) snprintf(hit->keys[i], NEAR_KEY_SIZE, "p:hit:%09u", i);
                near_check("put", tslab_map_put(hit->map, key, NEAR_KEY_SIZE - 1, hit->buffer, NEAR_VALUE,
                                                TSLAB_EPOCH_CURRENT));
                (void) tslab_near_get(hit->reader.near, key, NEAR_KEY_SIZE - 1, hit->buffer, NEAR_VALUE, 0,
                                      &claim);
                near_check("fill",
                           tslab_near_fill(hit->reader.near, key, NEAR_KEY_SIZE - 1, &claim,
                                           hit->reader.server, hit->buffer, NEAR_VALUE, TSLAB_MAP_TTL_NONE));
        }
}

static double measure_round(NearBench *near_bench, Hit *hit, HitFunction get) {
        uint64_t begin;
        Random random;

        random_init(&random, 1);
        begin = clock_now();
        for (uint64_t i = 0; i < near_bench->n; i++)
                get(hit, hit->keys[random_below(&random, KEYS)]);
        return clock_net_ns(&near_bench->bench.clock, (double) (clock_now() - begin)) /
               (double) near_bench->n;
}

void near_hit(NearBench *near_bench) {
        static Hit hit;
        double map_ns[ROUNDS], near_ns[ROUNDS], ratios[ROUNDS];

        reader_open(&hit.reader, near_bench, 0);
        reader_await_cover(&hit.reader);
        near_check("map", tslab_map_open(&hit.map, hit.reader.pool, "bench", NULL));
        hit.keys = bench_reserve((size_t) KEYS * NEAR_KEY_SIZE);
        fill_both(&hit);
        group_pin(0);
        for (uint32_t i = 0; i < ROUNDS; i++) {
                double loop_ns = measure_round(near_bench, &hit, get_nothing);

                map_ns[i] = measure_round(near_bench, &hit, get_from_map) - loop_ns;
                near_ns[i] = measure_round(near_bench, &hit, get_from_near) - loop_ns;
                ratios[i] = near_ns[i] / map_ns[i];
        }
        bench_metric(&near_bench->bench, "map_ns", bench_median(map_ns, ROUNDS));
        bench_metric(&near_bench->bench, "near_ns", bench_median(near_ns, ROUNDS));
        bench_metric(&near_bench->bench, "near_over_map", bench_median(ratios, ROUNDS));
        (void) tslab_map_close(hit.map);
        reader_close(&hit.reader);
}
