/*
 * Stores in which web workers keep sessions today: get and put of a 256-byte session by a key, in one process
 * that asks one store. Prints JSON: ns of each operation, measured apart.
 *
 *      bench-web tslab
 *      bench-web redis SOCKET
 *      bench-web memcached SOCKET
 *
 * The time of the loop around an operation is subtracted. Redis and memcached are asked over Unix sockets by
 * their usual client libraries, one request at a time as a web worker does. APCu, which only PHP has, is
 * measured by apcu.php.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/web/store.h"

#define WEB_KEYS 10000
#define WEB_ROUNDS 5

static const WebStore *const stores[] = {
        &web_tslab,
#ifdef BENCH_REDIS
        &web_redis,
#endif
#ifdef BENCH_MEMCACHED
        &web_memcached,
#endif
};

typedef struct Web {
        Bench bench;
        char keys[WEB_KEYS][WEB_KEY_SIZE];
        char value[WEB_VALUE_SIZE];
        uint64_t n;
} Web;

static void do_nothing(uint32_t number, const char *key, char *value) {
        memcpy(value, &number, sizeof(number));
}

/* The time to subtract: the loop, choosing a key, comparing. */
static const WebOperation nothing = { "loop", true, do_nothing };

/* The value holds the key's number, and a get must return it. */
static double operation_measure(Web *web, const WebOperation *operation) {
        double ns[WEB_ROUNDS];
        Random random;
        uint64_t begin;

        random_init(&random, 1);
        for (uint32_t round = 0; round < WEB_ROUNDS; round++) {
                begin = clock_now();
                for (uint64_t i = 0; i < web->n; i++) {
                        uint32_t key = random_below(&random, WEB_KEYS);

                        memcpy(web->value, &key, operation->gets ? 0 : sizeof(key));
                        operation->function(key, web->keys[key], web->value);
                        if (operation->gets && memcmp(web->value, &key, sizeof(key)) != 0)
                                bench_fail("%s: another key's value", operation->name);
                }
                ns[round] = clock_net_ns(&web->bench.clock, (double) (clock_now() - begin)) / (double) web->n;
        }
        return bench_median(ns, WEB_ROUNDS);
}

static void store_run(Web *web, const WebStore *store, const char *socket) {
        char metric[64];
        double loop;

        store->open(socket, WEB_KEYS);
        /* All keys exist before the first operation counts. */
        for (const WebOperation *operation = store->operations; operation->name; operation++)
                for (uint32_t key = 0; key < WEB_KEYS && !operation->gets; key++) {
                        memcpy(web->value, &key, sizeof(key));
                        operation->function(key, web->keys[key], web->value);
                }
        loop = operation_measure(web, &nothing);
        bench_metric(&web->bench, "loop_ns", loop);
        for (const WebOperation *operation = store->operations; operation->name; operation++) {
                (void) snprintf(metric, sizeof(metric), "%s_ns", operation->name);
                bench_metric(&web->bench, metric, operation_measure(web, operation) - loop);
        }
}

int main(int argc, char **argv) {
        static Web web;
        const WebStore *store = NULL;

        for (size_t i = 0; argc >= 2 && i < sizeof(stores) / sizeof(stores[0]); i++)
                if (strcmp(stores[i]->name, argv[1]) == 0)
                        store = stores[i];
        if (!store || argc > 4) {
                (void) fprintf(stderr, "Usage: bench-web STORE SOCKET [OPERATIONS]\n");
                return 2;
        }
        (void) group_n_cpus();
        group_pin(0);
        web.bench.metrics = json_object_new_object();
        web.n = argc == 4 ? strtoull(argv[3], NULL, 10) : store->n_operations;
        for (uint32_t i = 0; i < WEB_KEYS; i++)
                (void) snprintf(web.keys[i], WEB_KEY_SIZE, "session:%08x", i * 2654435761U);
        clock_init(&web.bench.clock);
        store_run(&web, store, argc >= 3 ? argv[2] : NULL);
        printf("%s\n", json_object_to_json_string_ext(web.bench.metrics, JSON_C_TO_STRING_PLAIN));
        json_object_put(web.bench.metrics);
        return 0;
}
