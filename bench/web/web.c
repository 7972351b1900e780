/*
 * Stores by key that web workers share, one process asking one store (where nothing else is said):
 *
 *      sessions    get and put of 256 bytes; with tslab also by handle
 *      values      get and put of 16 bytes to 1 MiB
 *      cycle       one key: get, put, delete and put
 *      tags        gets of entries with tags, and an invalidation
 *      counters    adding 1, by key and to a counter that was looked up before; two processes that add to one key
 *      limits      taking a token of a bucket
 *      expiry      another process's calls while 10^6 entries expire within a second
 *      index       the index of a map after many inserts
 *      room        the most free memory with which a put of a large value fails
 *      misses      requests that miss in a cache with so much memory
 *      evict-...   puts into a cache that is full, one by one
 *      beside      puts into a small cache beside a large map; puts that fail in pools of several sizes
 *      resident    the memory of a cache over its limit, also after the sizes of entries have changed
 *      claims      one computation at a time
 *
 * Prints JSON: ns of each operation, measured apart; "series" has curves. Redis and memcached are asked over Unix
 * sockets by their usual client libraries, one request at a time as a web worker does. APCu, which only PHP has, is
 * measured by bench/php/apcu.php, and nginx's shdict, which only its Lua has, by shdict.lua. `memory` is a plain shared
 * mapping.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/web/web.h"

#define NOT_APPLICABLE 77 /* exit code */

static const Store *const stores[] = {
        &store_memory,
        &store_tslab,
#ifdef BENCH_REDIS
        &store_redis,
#endif
#ifdef BENCH_MEMCACHED
        &store_memcached,
#endif
};

static const struct {
        const char *name;
        void (*function)(Web *);
} workloads[] = {
        { "sessions", web_sessions },
        { "values", web_values },
        { "counters", web_counters },
        { "cycle", web_cycle },
        { "tags", web_tags },
        { "index", web_index },
        { "room", web_room },
        { "limits", web_limits },
        { "expiry", web_expiry },
        { "misses", web_misses },
        { "claims", web_claims },
        { "evict-limit", web_evict_limit },
        { "evict-full", web_evict_full },
        { "beside", web_beside },
        { "resident", web_resident },
};

void web_make_keys(Web *web, const char *prefix, uint32_t n) {
        if (strlen(prefix) + 1 + 8 != STORE_KEY_SIZE - 1)
                bench_fail("%s: not 7 characters", prefix);
        web->keys = bench_reserve((size_t) n * STORE_KEY_SIZE);
        for (uint32_t i = 0; i < n; i++)
                (void) snprintf(web->keys[i], STORE_KEY_SIZE, "%s:%08x", prefix, i * 2654435761U);
}

void web_metric(Web *web, double value, const char *format, ...) {
        char name[64];
        va_list args;

        va_start(args, format);
        (void) vsnprintf(name, sizeof(name), format, args);
        va_end(args);
        bench_metric(&web->bench, name, value);
}

StoreItem web_item(Web *web, uint32_t number, uint32_t size) {
        return (StoreItem){ .number = number, .key = web->keys[number], .value = web->value, .size = size };
}

void web_each(Web *web, StoreFunction function, uint32_t n_keys, uint32_t size) {
        for (uint32_t i = 0; i < n_keys; i++) {
                StoreItem item = web_item(web, i, size);

                memcpy(web->value, &i, sizeof(i));
                function(&item);
        }
}

static void do_nothing(StoreItem *item) {
        memcpy(item->value, &item->number, sizeof(item->number));
        __asm__ volatile("" : : "r"(item) : "memory");
}

static double web_loop(Web *web, const StoreOperation *operation, uint32_t n_keys, uint32_t size,
                       uint64_t n) {
        double ns[WEB_ROUNDS];
        Random random;
        uint64_t begin;

        random_init(&random, 1);
        for (uint32_t round = 0; round < WEB_ROUNDS; round++) {
                begin = clock_now();
                for (uint64_t i = 0; i < n; i++) {
                        uint32_t key = random_below(&random, n_keys);
                        StoreItem item = web_item(web, key, size);

                        if (!operation->gets)
                                memcpy(web->value, &key, sizeof(key));
                        operation->function(&item);
                        if (operation->gets && memcmp(web->value, &key, sizeof(key)) != 0)
                                bench_fail("%s: another key's value", operation->name);
                }
                ns[round] = clock_net_ns(&web->bench.clock, (double) (clock_now() - begin)) / (double) n;
        }
        return bench_median(ns, WEB_ROUNDS);
}

double web_measure(Web *web, const StoreOperation *operation, uint32_t n_keys, uint32_t size, uint64_t n) {
        static const StoreOperation nothing = { "loop", true, do_nothing };

        return web_loop(web, operation, n_keys, size, n) - web_loop(web, &nothing, n_keys, size, n);
}

void web_sessions(Web *web) {
        const StoreOperation both[] = { { "put", false, web->store->put },
                                        { "get", true, web->store->get },
                                        {} };
        const StoreOperation *lists[] = { both, web->store->sessions };

        web_make_keys(web, "session", WEB_KEYS);
        for (size_t i = 0; i < 2; i++)
                for (const StoreOperation *o = lists[i]; o->name; o++) {
                        if (!o->gets) /* all keys exist before the first operation counts */
                                web_each(web, o->function, WEB_KEYS, STORE_SIZE_SESSION);
                        web_metric(web, web_measure(web, o, WEB_KEYS, STORE_SIZE_SESSION, web->n), "%s_ns",
                                   o->name);
                }
}

static const Store *find_store(const char *name) {
        for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++)
                if (strcmp(stores[i]->name, name) == 0)
                        return stores[i];
        (void) fprintf(stderr, "bench-web: no such store: %s\n", name);
        exit(NOT_APPLICABLE);
}

int main(int argc, char **argv) {
        static Web web;

        if (argc < 3) {
                (void) fprintf(stderr,
                               "Usage: bench-web WORKLOAD STORE [SOCKET|- [OPERATIONS|0 [ARGUMENT...]]]\n");
                return 2;
        }
        web.store = find_store(argv[2]);
        web.options.socket = argc >= 4 && strcmp(argv[3], "-") != 0 ? argv[3] : NULL;
        web.n_wanted = argc >= 5 ? strtoull(argv[4], NULL, 10) : 0;
        web.n = web.n_wanted ?: web.store->n_operations;
        web.arguments = argv + (argc >= 5 ? 5 : argc);
        web.bench.metrics = json_object_new_object();
        web.bench.series = json_object_new_object();
        (void) group_n_cpus();
        group_pin(0);
        clock_init(&web.bench.clock);
        web.value = bench_reserve(STORE_VALUE_MAX);
        web.store->open(&web.options);
        for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
                if (strcmp(workloads[i].name, argv[1]) == 0)
                        workloads[i].function(&web);
        if (json_object_object_length(web.bench.metrics) == 0)
                return NOT_APPLICABLE;
        if (json_object_object_length(web.bench.series) > 0)
                json_object_object_add(web.bench.metrics, "series", json_object_get(web.bench.series));
        printf("%s\n", json_object_to_json_string_ext(web.bench.metrics, JSON_C_TO_STRING_PLAIN));
        json_object_put(web.bench.metrics);
        json_object_put(web.bench.series);
        return 0;
}
