/* A map in a private pool. */
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/harness/harness.h"
#include "bench/keys/keys.h"
#include "bench/web/web-inside.h"

#define KEYS_A_MIB 4096 /* the pool has room for twice as many */
#define MIB_LEAST 64

static struct tslab *pool;
static struct tslab_map *map;

static void call_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

static void map_open_pool(uint64_t n_max, bool huge) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = (MIB_LEAST + n_max / KEYS_A_MIB) << 20,
                                         .huge = huge };

        call_check("create", tslab_create(&pool, &options));
        call_check("map", tslab_map_open(&map, pool, "bench", NULL));
}

static void map_open(uint64_t n_max) {
        map_open_pool(n_max, false);
}

static void map_open_huge(uint64_t n_max) {
        map_open_pool(n_max, true);
}

static void map_make_huge(void) {
        call_check("reap", tslab_reap(pool));
}

static void map_close(void) {
        map = tslab_map_close(map);
        pool = tslab_close(pool);
}

static void map_put(uint64_t key, const void *value) {
        call_check("put", tslab_map_put(map, &key, sizeof(key), value, KEYS_VALUE_SIZE, TSLAB_EPOCH_CURRENT));
}

static void map_get(uint64_t key, void *value) {
        call_check("get", tslab_map_get(map, &key, sizeof(key), value, KEYS_VALUE_SIZE, NULL));
}

static void map_get_many(const uint64_t keys[KEYS_MANY], uint8_t values[KEYS_MANY][KEYS_VALUE_SIZE]) {
        struct tslab_map_item items[KEYS_MANY];

        for (uint32_t i = 0; i < KEYS_MANY; i++)
                items[i] = (struct tslab_map_item){ .key = &keys[i],
                                                    .key_size = sizeof(keys[i]),
                                                    .value = values[i],
                                                    .value_size = KEYS_VALUE_SIZE };
        call_check("get of many", tslab_map_get_many(map, items, KEYS_MANY));
}

static double map_index_bytes(void) {
        return (double) inside_index_bytes(map);
}

const KeyStore keys_map = {
        .name = "tslab",
        .n_max = 10000000,
        .open = map_open,
        .close = map_close,
        .put = map_put,
        .get = map_get,
        .get_many = map_get_many,
        .index_bytes = map_index_bytes,
};

const KeyStore keys_map_huge = {
        .name = "tslab-huge",
        .n_max = 10000000,
        .open = map_open_huge,
        .close = map_close,
        .put = map_put,
        .filled = map_make_huge,
        .get = map_get,
        .get_many = map_get_many,
        .index_bytes = map_index_bytes,
};
