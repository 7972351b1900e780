/*
 * Puts of 128 bytes into a store that is full, so that each evicts: their latencies, one by one. And, with tslab, gets
 * that hit, of 10,000 keys in a map that evicts and in one of as many entries that does not. (Other stores may evict
 * keys that were put just now.)
 *
 * Control: a loop that computes for as long as a put takes, and allocates nothing: its slow turns are the machine's.
 */
#include <string.h>

#include "bench/web/web.h"

#define EVICT_BYTES (UINT64_C(16) << 20)
#define EVICT_SIZE 128
#define EVICT_FULL 100000 /* more than fit */
#define EVICT_KEYS 300000
#define EVICT_POOLS 3
#define CONTROL_NS 1000.0
#define CONTROL_STEPS 1000000 /* to find out how many take so long */

static bool (*the_find)(StoreItem *item);

/* In a full pool, one of the keys may be evicted for the next ones. */
static void find_key(StoreItem *item) {
        if (!the_find(item))
                memcpy(item->value, &item->number, sizeof(item->number));
}

static void store_reopen(Web *web, const StoreOptions *options, uint64_t n_puts) {
        if (web->store->close)
                web->store->close();
        web->store->open(options);
        web_each(web, web->store->put, (uint32_t) n_puts, EVICT_SIZE);
}

static double gets_measure(Web *web) {
        const StoreOperation get = { "get", true, find_key };

        web_each(web, web->store->put, WEB_KEYS, EVICT_SIZE);
        return web_measure(web, &get, WEB_KEYS, EVICT_SIZE, web->n / EVICT_POOLS);
}

/* Where a pool's pages happen to be makes gets up to a tenth slower or faster, so that there are several pools. */
static void gets_compare(Web *web, const StoreOptions *evicting) {
        const StoreOptions plain = { .socket = evicting->socket };
        double ns[EVICT_POOLS], without_ns[EVICT_POOLS];
        uint64_t n_entries;

        for (uint32_t i = 0; i < EVICT_POOLS; i++) {
                store_reopen(web, evicting, EVICT_KEYS);
                ns[i] = gets_measure(web);
                n_entries = web->store->entries();
                store_reopen(web, &plain, n_entries);
                without_ns[i] = gets_measure(web);
        }
        web_metric(web, bench_median(ns, EVICT_POOLS), "get_ns");
        web_metric(web, bench_median(without_ns, EVICT_POOLS), "get_without_ns");
}

/* Each key was evicted long before its turn comes again. */
static void puts_measure(Web *web) {
        Histogram *h = histogram_new();
        uint64_t begin;

        for (uint64_t i = 0; i < web->n; i++) {
                StoreItem item = web_item(web, (uint32_t) ((EVICT_FULL + i) % EVICT_KEYS), EVICT_SIZE);

                begin = clock_now();
                web->store->put(&item);
                histogram_add(h, clock_now() - begin);
        }
        bench_latencies(&web->bench, "put", h);
}

static uint64_t compute_steps(uint64_t x, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                x = x * UINT64_C(6364136223846793005) + 1;
                __asm__ volatile("" : "+r"(x));
        }
        return x;
}

static void control_measure(Web *web) {
        Histogram *h = histogram_new();
        uint64_t begin = clock_now(), x = compute_steps(begin, CONTROL_STEPS);
        uint32_t n = (uint32_t) (CONTROL_NS * CONTROL_STEPS /
                                 clock_net_ns(&web->bench.clock, (double) (clock_now() - begin)));

        for (uint64_t i = 0; i < web->n; i++) {
                begin = clock_now();
                x = compute_steps(x, n);
                histogram_add(h, clock_now() - begin);
        }
        bench_latencies(&web->bench, "control", h);
}

static void evictions_measure(Web *web, uint64_t pool_bytes, uint64_t limit_bytes) {
        StoreOptions options = { web->options.socket, pool_bytes, limit_bytes, .evicts = true };

        if (!web->store->find || (pool_bytes > 0 && !web->store->entries))
                return;
        the_find = web->store->find;
        web_make_keys(web, "evicted", EVICT_KEYS);
        store_reopen(web, &options, EVICT_FULL);
        puts_measure(web);
        control_measure(web);
        if (web->store->entries)
                gets_compare(web, &options);
}

void web_evict_limit(Web *web) {
        evictions_measure(web, 0, EVICT_BYTES);
}

/* No limit, but a pool without memory left. */
void web_evict_full(Web *web) {
        evictions_measure(web, EVICT_BYTES, 0);
}
