/*
 * Cost by the number of keys: inserts, gets and replacing puts of random keys while a store has 10^3 to 10^7 of them.
 *
 *      bench-keys STORE [MOST KEYS]
 *
 * A store begins empty at each size, so an insert's time contains the page faults of its memory. Prints JSON:
 * nanoseconds, medians of rounds, and each operation as a curve. `memory` is the floor: an open-addressed table of
 * indexes into an array, in a memfd, with nothing that a reader could rely on while another process writes. Each of its
 * gets misses the cache twice.
 *
 * A processor begins the next get of a loop before the last one ended, if both fit its window of some hundred
 * instructions: so a loop of the floor's gets waits for several keys' memory at one time. `get_latency` is a get
 * with a key that is known only when the last one's value is, and `get_16` one of 16 in a call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/harness.h"
#include "bench/keys/keys.h"

#define NOT_APPLICABLE 77 /* exit code */
#define KEYS_LEAST 1000
#define ROUNDS 5
#define OPERATIONS 200000 /* a round has so many */

static const KeyStore *const stores[] = {
        &keys_table,
        &keys_map,
        &keys_map_huge,
#ifdef BENCH_LMDB
        &keys_lmdb,
#endif
};

/* A different key for each number, spread over all 64 bits. */
static uint64_t keys_key(uint64_t number) {
        return number * UINT64_C(0x9e3779b97f4a7c15);
}

static void keys_make_value(uint64_t number, uint64_t value[KEYS_VALUE_SIZE / 8]) {
        for (uint32_t i = 0; i < KEYS_VALUE_SIZE / 8; i++)
                value[i] = number;
}

static void keys_put(const KeyStore *store, uint64_t number) {
        uint64_t value[KEYS_VALUE_SIZE / 8];

        keys_make_value(number, value);
        store->put(keys_key(number), value);
}

static void keys_check(uint64_t number, const uint64_t value[KEYS_VALUE_SIZE / 8]) {
        if (value[0] != number || value[KEYS_VALUE_SIZE / 8 - 1] != number)
                bench_fail("the value of another key");
}

static void keys_get(const KeyStore *store, uint64_t number) {
        uint64_t value[KEYS_VALUE_SIZE / 8];

        store->get(keys_key(number), value);
        keys_check(number, value);
}

static uint64_t zero; /* each key of keys_get_next() waits for it */

static void keys_get_next(const KeyStore *store, uint64_t number) {
        uint64_t value[KEYS_VALUE_SIZE / 8], read;

        store->get(keys_key(number + zero), value);
        /* For the compiler, nothing is known of `read`. */
        __asm__("" : "=r"(read) : "0"(value[0]));
        keys_check(number, value);
        zero = read - number;
}

static void keys_settle(const KeyStore *store) {
        if (store->settle)
                store->settle();
}

static double keys_elapsed_ns(const Bench *bench, uint64_t begin, uint64_t n) {
        return clock_net_ns(&bench->clock, (double) (clock_now() - begin)) / (double) n;
}

static double keys_random_ns(const Bench *bench, const KeyStore *store,
                             void (*function)(const KeyStore *, uint64_t), uint64_t n_keys) {
        double ns[ROUNDS];
        Random random;

        random_init(&random, n_keys);
        for (uint32_t round = 0; round < ROUNDS; round++) {
                uint64_t begin = clock_now();

                for (uint32_t i = 0; i < OPERATIONS; i++)
                        function(store, random_below(&random, (uint32_t) n_keys));
                keys_settle(store);
                ns[round] = keys_elapsed_ns(bench, begin, OPERATIONS);
        }
        return bench_median(ns, ROUNDS);
}

/* A get of several keys in a call. */
static double keys_many_ns(const Bench *bench, const KeyStore *store, uint64_t n_keys) {
        uint64_t numbers[KEYS_MANY], keys[KEYS_MANY];
        uint8_t values[KEYS_MANY][KEYS_VALUE_SIZE] __attribute__((aligned(8)));
        double ns[ROUNDS];
        Random random;

        random_init(&random, n_keys);
        for (uint32_t round = 0; round < ROUNDS; round++) {
                uint64_t begin = clock_now();

                for (uint32_t n = 0; n < OPERATIONS; n += KEYS_MANY) {
                        for (uint32_t i = 0; i < KEYS_MANY; i++) {
                                numbers[i] = random_below(&random, (uint32_t) n_keys);
                                keys[i] = keys_key(numbers[i]);
                        }
                        store->get_many(keys, values);
                        for (uint32_t i = 0; i < KEYS_MANY; i++)
                                keys_check(numbers[i], (const uint64_t *) values[i]);
                }
                ns[round] = keys_elapsed_ns(bench, begin, OPERATIONS);
        }
        return bench_median(ns, ROUNDS);
}

static void keys_report(Bench *bench, const char *operation, uint64_t n_keys, double value) {
        char name[64];

        (void) snprintf(name, sizeof(name), "%s_%ju", operation, (uintmax_t) n_keys);
        bench_metric(bench, name, value);
        bench_point(bench, operation, (double) n_keys, value);
}

static void keys_measure(Bench *bench, const KeyStore *store, uint64_t n_keys) {
        uint64_t begin;

        store->open(n_keys);
        begin = clock_now();
        for (uint64_t i = 0; i < n_keys; i++)
                keys_put(store, i);
        keys_settle(store);
        keys_report(bench, "insert_ns", n_keys, keys_elapsed_ns(bench, begin, n_keys));
        if (store->filled)
                store->filled();
        keys_report(bench, "get_ns", n_keys, keys_random_ns(bench, store, keys_get, n_keys));
        keys_report(bench, "get_latency_ns", n_keys, keys_random_ns(bench, store, keys_get_next, n_keys));
        if (store->get_many)
                keys_report(bench, "get_16_ns", n_keys, keys_many_ns(bench, store, n_keys));
        keys_report(bench, "replace_ns", n_keys, keys_random_ns(bench, store, keys_put, n_keys));
        if (store->index_bytes)
                keys_report(bench, "index_bytes", n_keys, store->index_bytes() / (double) n_keys);
        store->close();
}

static const KeyStore *keys_find_store(const char *name) {
        for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++)
                if (strcmp(stores[i]->name, name) == 0)
                        return stores[i];
        (void) fprintf(stderr, "bench-keys: no such store: %s\n", name);
        exit(NOT_APPLICABLE);
}

int main(int argc, char **argv) {
        static Bench bench;
        const KeyStore *store;
        uint64_t most;

        if (argc < 2) {
                (void) fprintf(stderr, "Usage: bench-keys STORE [MOST KEYS]\n");
                return 2;
        }
        store = keys_find_store(argv[1]);
        most = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
        if (most == 0 || most > store->n_max)
                most = store->n_max;
        bench.metrics = json_object_new_object();
        bench.series = json_object_new_object();
        (void) group_n_cpus();
        group_pin(0);
        clock_init(&bench.clock);
        for (uint64_t n_keys = KEYS_LEAST; n_keys <= most; n_keys *= 10)
                keys_measure(&bench, store, n_keys);
        json_object_object_add(bench.metrics, "series", bench.series);
        printf("%s\n", json_object_to_json_string_ext(bench.metrics, JSON_C_TO_STRING_PLAIN));
        json_object_put(bench.metrics);
        return 0;
}
