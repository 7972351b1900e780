/*
 * Entries with tags: the get of one key of 10,000, with 64 bytes, that has no tag, one, or four; a put with one tag;
 * and an invalidation of the tag that all keys have, which is the same work for any number of them.
 */
#include "bench/web/web.h"

#define TAGS_SIZE 64

static const Store *store;
static uint32_t n_tags; /* each put has so many */

static void put_tagged(StoreItem *item) {
        store->put_tagged(item, n_tags);
}

static void tags_measure_get(Web *web, const char *name) {
        const StoreOperation get = { "get", true, store->get };

        web_each(web, put_tagged, WEB_KEYS, TAGS_SIZE);
        web_metric(web, web_measure(web, &get, 1, TAGS_SIZE, web->n), "%s", name);
}

static double invalidate_ns(Web *web) {
        double ns[WEB_ROUNDS];

        for (uint32_t round = 0; round < WEB_ROUNDS; round++) {
                uint64_t begin;

                web_each(web, put_tagged, WEB_KEYS, TAGS_SIZE);
                begin = clock_now();
                store->invalidate();
                ns[round] = clock_net_ns(&web->bench.clock, (double) (clock_now() - begin));
        }
        return bench_median(ns, WEB_ROUNDS);
}

void web_tags(Web *web) {
        static const char *const gets[] = { "get_0_tags_ns", "get_1_tag_ns", NULL, NULL, "get_4_tags_ns" };
        const StoreOperation put = { "put", false, put_tagged };

        store = web->store;
        if (!store->put_tagged)
                return;
        web_make_keys(web, "tagged_", WEB_KEYS);
        for (n_tags = 0; n_tags < sizeof(gets) / sizeof(gets[0]); n_tags++)
                if (gets[n_tags])
                        tags_measure_get(web, gets[n_tags]);
        n_tags = 1;
        web_metric(web, web_measure(web, &put, WEB_KEYS, TAGS_SIZE, web->n), "put_1_tag_ns");
        web_metric(web, invalidate_ns(web), "invalidate_ns");
}
