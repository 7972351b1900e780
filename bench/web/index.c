/*
 * Whether a map's index grows with its inserts: 1000 entries live in a pool of 4 MiB, and each insert deletes the
 * oldest one. Reported: the bytes of the index for each entry, without those of an empty map, at the end and as a
 * series.
 */
#include "bench/web/web.h"

#define INDEX_INSERTS 10000000
#define INDEX_LIVE 1000
#define INDEX_POOL_BYTES (UINT64_C(4) << 20)
#define INDEX_VALUE_SIZE 64
#define INDEX_SAMPLES 4 /* in each power of two */

static StoreItem index_item(Web *web, uint64_t number) {
        static char key[STORE_KEY_SIZE];

        number *= UINT64_C(0x9e3779b97f4a7c15);
        for (uint32_t i = 0; i < STORE_KEY_SIZE - 1; i++)
                key[i] = (char) ('a' + (number >> (4 * i) & 15));
        return (StoreItem){ .key = key, .value = web->value, .size = INDEX_VALUE_SIZE };
}

static double entry_bytes(const Web *web, uint64_t empty_bytes) {
        return (double) (web->store->index_bytes() - empty_bytes) / (double) web->store->entries();
}

void web_index(Web *web) {
        StoreOptions options = { .pool_bytes = INDEX_POOL_BYTES };
        uint64_t n = web->n_wanted ?: INDEX_INSERTS, empty_bytes, next = INDEX_LIVE;

        if (!web->store->index_bytes)
                return;
        web->store->close();
        web->store->open(&options);
        empty_bytes = web->store->index_bytes();
        for (uint64_t i = 0; i < n; i++) {
                StoreItem item = index_item(web, i);

                web->store->put(&item);
                if (i < INDEX_LIVE)
                        continue;
                item = index_item(web, i - INDEX_LIVE);
                web->store->remove(&item);
                if (i >= next) {
                        bench_point(&web->bench, "index", (double) i, entry_bytes(web, empty_bytes));
                        next += next / INDEX_SAMPLES;
                }
        }
        web_metric(web, entry_bytes(web, empty_bytes), "index_bytes_per_entry");
        web_metric(web, (double) empty_bytes, "index_empty_bytes");
        web_metric(web, (double) web->store->entries(), "entries");
}
