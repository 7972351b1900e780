/*
 * One key of 10,000: a get, a put that replaces its value, and a delete with the put after it. Then puts of up to
 * 10,000 keys that are new, and their deletes. Values of 64 bytes.
 */
#include <stdio.h>

#include "bench/web/web.h"

#define CYCLE_SIZE 64

static const Store *store;

static void key_delete_and_put(StoreItem *item) {
        store->remove(item);
        store->put(item);
}

static double keys_ns(Web *web, StoreFunction function, uint32_t n_keys) {
        uint64_t begin = clock_now();

        web_each(web, function, n_keys, CYCLE_SIZE);
        return clock_net_ns(&web->bench.clock, (double) (clock_now() - begin)) / n_keys;
}

/* Each round has other keys. */
static void new_keys_measure(Web *web) {
        uint32_t n_keys = web->n / 2 < WEB_KEYS ? (uint32_t) web->n / 2 : WEB_KEYS;
        double put_ns[WEB_ROUNDS], delete_ns[WEB_ROUNDS];
        char prefix[16];

        for (uint32_t round = 0; round < WEB_ROUNDS; round++) {
                (void) snprintf(prefix, sizeof(prefix), "new-%03u", round);
                web_make_keys(web, prefix, n_keys);
                put_ns[round] = keys_ns(web, store->put, n_keys);
                delete_ns[round] = keys_ns(web, store->remove, n_keys);
        }
        web_metric(web, bench_median(put_ns, WEB_ROUNDS), "put_new_ns");
        web_metric(web, bench_median(delete_ns, WEB_ROUNDS), "delete_ns");
}

void web_cycle(Web *web) {
        const StoreOperation operations[] = { { "get", true, web->store->get },
                                              { "replace", false, web->store->put },
                                              { "delete_and_put", false, key_delete_and_put } };

        store = web->store;
        web_make_keys(web, "another", WEB_KEYS);
        web_each(web, store->put, WEB_KEYS, CYCLE_SIZE);
        for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
                web_metric(web, web_measure(web, &operations[i], 1, CYCLE_SIZE, web->n), "%s_ns",
                           operations[i].name);
        new_keys_measure(web);
}
