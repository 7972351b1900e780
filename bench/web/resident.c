/*
 * The memory that a map with a limit takes, over the limit: with entries of one size; and after entries of one size
 * after another, the small ones first or the large ones, of each of which 3 % are in use. It is all shared memory of
 * the process that the pool did not have at first, but for slabs that are free: entries, index, shortcuts and tables.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/web.h"

#define RESIDENT_LIMIT (UINT64_C(16) << 20)
#define RESIDENT_LIMIT_QUICK (UINT64_C(1) << 20)
#define RESIDENT_POOL_SHARE 8 /* the pool has room for so many limits */
#define RESIDENT_FILLS 2 /* limits that entries of one size come to */
#define RESIDENT_USED 33 /* one key of so many is in use */
#define RESIDENT_ENTRY 48 /* bytes of an entry beside its value, roughly */
#define SLAB_BYTES 4096
#define SLAB_TABLES 320

static const uint32_t sizes[] = { 16, 32, 100, 300, 1000, 5000 };

#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

typedef struct Resident {
        Web *web;
        struct tslab *pool;
        struct tslab_map *map;
        uint64_t limit, n_keys; /* keys that were put so far, numbered from 0 */
        uint64_t before; /* bytes that the pool had when it was new */
        Random random;
} Resident;

static void resident_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

/* The shared memory that is in this process's page tables: it has touched all that the pool has. */
static uint64_t shared_bytes(void) {
        unsigned long n = 0;
        FILE *f = fopen("/proc/self/statm", "re");

        if (!f || fscanf(f, "%*u %*u %lu", &n) != 1)
                bench_fail("/proc/self/statm cannot be read");
        (void) fclose(f);
        return (uint64_t) n * SLAB_BYTES;
}

static void resident_open(Resident *r) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = r->limit * RESIDENT_POOL_SHARE };
        struct tslab_map_options map_options = { .size = sizeof(map_options),
                                                 .limit_bytes = r->limit,
                                                 .evict = TSLAB_MAP_EVICT_SIEVE };

        resident_check("open", tslab_create(&r->pool, &options));
        resident_check("map", tslab_map_open(&r->map, r->pool, "resident", &map_options));
        r->before = shared_bytes();
}

static void resident_close(Resident *r) {
        r->map = tslab_map_close(r->map);
        r->pool = tslab_close(r->pool);
}

static void key_make(uint64_t number, char key[STORE_KEY_SIZE]) {
        (void) snprintf(key, STORE_KEY_SIZE, "%016lu", (unsigned long) number);
}

static void use_one(Resident *r, uint64_t first) {
        uint32_t n = (uint32_t) ((r->n_keys - first) / RESIDENT_USED);
        char key[STORE_KEY_SIZE];
        ssize_t size;

        if (n == 0)
                return;
        key_make(first + RESIDENT_USED * (uint64_t) random_below(&r->random, n), key);
        size = tslab_map_get(r->map, key, STORE_KEY_SIZE - 1, r->web->value, STORE_VALUE_MAX, NULL);
        if (size != -ENOENT)
                resident_check("get", size);
}

static void fill_map(Resident *r, uint32_t size, bool in_use) {
        uint64_t first = r->n_keys, n = RESIDENT_FILLS * r->limit / (size + RESIDENT_ENTRY);
        char key[STORE_KEY_SIZE];

        for (uint64_t i = 0; i < n; i++) {
                key_make(r->n_keys++, key);
                resident_check("put", tslab_map_put(r->map, key, STORE_KEY_SIZE - 1, r->web->value, size,
                                                    TSLAB_EPOCH_CURRENT));
                for (uint32_t k = 0; in_use && k < 2; k++)
                        use_one(r, first);
        }
}

static double over_limit(const Resident *r) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        resident_check("statistics", tslab_stats(r->pool, &stats));
        return ((double) (shared_bytes() - r->before) -
                (double) stats.retained_bytes / SLAB_BYTES * (SLAB_BYTES + SLAB_TABLES)) /
               (double) r->limit;
}

static void measure_one(Resident *r, uint32_t size) {
        resident_open(r);
        fill_map(r, size, false);
        web_metric(r->web, over_limit(r), "steady_%u", size);
        resident_close(r);
}

static void measure_all(Resident *r, bool falling) {
        resident_open(r);
        for (size_t i = 0; i < N_SIZES; i++) {
                uint32_t size = sizes[falling ? N_SIZES - 1 - i : i];

                fill_map(r, size, true);
                web_metric(r->web, over_limit(r), "%s_%u", falling ? "falling" : "rising", size);
        }
        resident_close(r);
}

void web_resident(Web *web) {
        Resident r = { .web = web, .limit = web->n_wanted > 0 ? RESIDENT_LIMIT_QUICK : RESIDENT_LIMIT };

        if (web->store != &store_tslab)
                return;
        web->store->close();
        random_init(&r.random, 1);
        for (size_t i = 0; i < N_SIZES; i++)
                measure_one(&r, sizes[i]);
        measure_all(&r, false);
        measure_all(&r, true);
}
