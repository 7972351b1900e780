/*
 * Puts of 100 bytes into a small map that evicts, one by one: alone in a pool, and beside a map of 2 million entries,
 * with which its first entries were mixed. And puts that fail, into a map that evicts nothing, by the size of the pool.
 * In tslab's maps; no other store here has several in one memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/web.h"

#define BESIDE_SIZE 100
#define BESIDE_ENTRIES 2000000
#define BESIDE_ENTRIES_QUICK 20000
#define BESIDE_EVERY 1000 /* a put into the small map after so many into the large one */
#define BESIDE_BYTES (UINT64_C(1) << 30)
#define BESIDE_PUTS 100000
#define REFUSED_PUTS 1000

static const uint32_t limits[] = { 640, 6400, 64000 };
static const uint32_t full_mib[] = { 64, 256, 1024 };

static struct tslab *pool;

static void beside_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

static void pool_make(uint64_t bytes) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = bytes,
                                         .retain_bytes = bytes };

        beside_check("open", tslab_create(&pool, &options));
}

static struct tslab_map *map_make(const char *name, uint64_t limit) {
        struct tslab_map_options options = { .size = sizeof(options),
                                             .limit_bytes = limit,
                                             .evict = limit > 0 ? TSLAB_MAP_EVICT_SIEVE
                                                                : TSLAB_MAP_EVICT_NEVER };
        struct tslab_map *map;

        beside_check("map", tslab_map_open(&map, pool, name, &options));
        return map;
}

static int number_put(const Web *web, struct tslab_map *map, uint64_t number) {
        return tslab_map_put(map, &number, sizeof(number), web->value, BESIDE_SIZE, TSLAB_EPOCH_CURRENT);
}

static void small_measure(Web *web, uint64_t limit, uint64_t n_large, const char *where) {
        struct tslab_map *large, *small;
        Histogram *h = histogram_new();
        uint64_t number = 0, begin;
        char name[32];

        pool_make(BESIDE_BYTES);
        large = map_make("large", 0);
        small = map_make("small", limit);
        for (uint64_t i = 0; i < n_large; i++) {
                beside_check("put", number_put(web, large, i));
                if (i % BESIDE_EVERY == 0)
                        beside_check("put", number_put(web, small, number++));
        }
        for (uint64_t i = 0; i < (web->n_wanted ?: BESIDE_PUTS); i++) {
                begin = clock_now();
                beside_check("put", number_put(web, small, number++));
                histogram_add(h, clock_now() - begin);
        }
        (void) snprintf(name, sizeof(name), "%s_%u", where, (unsigned) limit);
        bench_latencies(&web->bench, name, h);
        tslab_map_close(small);
        tslab_map_close(large);
        pool = tslab_close(pool);
}

/* Entries have no end, so that nothing can be deleted for a put. A key that needs no new node may still fit. */
static void refused_measure(Web *web, uint32_t mib) {
        Histogram *h = histogram_new();
        struct tslab_map *map;
        uint64_t number = 0, begin, ticks;
        char name[32];
        int r;

        pool_make((uint64_t) mib << 20);
        map = map_make("full", 0);
        while (h->n < REFUSED_PUTS) {
                begin = clock_now();
                r = number_put(web, map, number++);
                ticks = clock_now() - begin;
                if (r == -ENOMEM)
                        histogram_add(h, ticks);
                else
                        beside_check("put", r);
        }
        (void) snprintf(name, sizeof(name), "refused_%u", (unsigned) mib);
        bench_latencies(&web->bench, name, h);
        tslab_map_close(map);
        pool = tslab_close(pool);
}

void web_beside(Web *web) {
        uint64_t n_large = web->n_wanted > 0 ? BESIDE_ENTRIES_QUICK : BESIDE_ENTRIES;

        if (web->store != &store_tslab)
                return;
        web->store->close();
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                small_measure(web, limits[i], 0, "alone");
                small_measure(web, limits[i], n_large, "beside");
        }
        for (size_t i = 0; i < sizeof(full_mib) / sizeof(full_mib[0]) && (web->n_wanted == 0 || i == 0); i++)
                refused_measure(web, full_mib[i]);
}
