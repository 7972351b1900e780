/* A private pool: values by key in a map, and sessions by handle. */
#include <errno.h>
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/web-inside.h"
#include "bench/web/store.h"

#define POOL_BYTES (UINT64_C(512) << 20)
#define HANDLES 10000

static struct tslab *pool;
static struct tslab_map *map;
static tslab_handle *handles, counters[HANDLES];

static void call_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

/*
 * With a socket, a daemon's pool. Free slabs keep their memory, as in the bench's other programs, but as users have it
 * where memory is short.
 */
static void tslab_store_open(const StoreOptions *o) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = o->pool_bytes ?: POOL_BYTES,
                                         .retain_bytes = o->evicts ? 0 : POOL_BYTES };
        struct tslab_map_options map_options = { .size = sizeof(map_options),
                                                 .limit_bytes = o->limit_bytes,
                                                 .evict = o->evicts ? TSLAB_MAP_EVICT_SIEVE
                                                                    : TSLAB_MAP_EVICT_NEVER };

        call_check("open", o->socket ? tslab_open(&pool, o->socket, NULL) : tslab_create(&pool, &options));
        call_check("map", tslab_map_open(&map, pool, "bench", &map_options));
        handles = bench_reserve(HANDLES * sizeof(*handles));
}

static void tslab_store_close(void) {
        map = tslab_map_close(map);
        pool = tslab_close(pool);
}

static void map_put(StoreItem *item) {
        call_check("put", tslab_map_put(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size,
                                        TSLAB_EPOCH_CURRENT));
}

static void map_get(StoreItem *item) {
        ssize_t n = tslab_map_get(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size, NULL);

        call_check("get", n);
        if (n != (ssize_t) item->size)
                bench_fail("get: %zd bytes", n);
}

static bool map_find(StoreItem *item) {
        ssize_t n = tslab_map_get(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size, NULL);

        if (n != -ENOENT)
                call_check("get", n);
        return n >= 0;
}

static struct tslab_map_statistics map_statistics(void) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        call_check("statistics", tslab_map_statistics(map, &s));
        return s;
}

static uint64_t map_bytes(void) {
        return map_statistics().bytes;
}

static uint64_t map_entries(void) {
        return map_statistics().entries;
}

static uint64_t map_index_bytes(void) {
        return inside_index_bytes(map);
}

static void map_delete(StoreItem *item) {
        call_check("delete", tslab_map_delete(map, item->key, STORE_KEY_SIZE - 1));
}

static uint64_t map_cost(StoreItem *item) {
        uint64_t before = map_bytes(), cost;

        map_put(item);
        cost = map_bytes() - before;
        map_delete(item);
        return cost;
}

static void map_add(StoreItem *item) {
        call_check("add", tslab_map_add(map, item->key, STORE_KEY_SIZE - 1, 1, 0, 0, NULL));
}

static void map_find_counter(StoreItem *item) {
        int64_t value;

        call_check("find", tslab_map_get(map, item->key, STORE_KEY_SIZE - 1, &value, sizeof(value),
                                         &counters[item->number % HANDLES]));
}

static void map_add_at(StoreItem *item) {
        call_check("add at", tslab_map_add_at(map, counters[item->number % HANDLES], 1, NULL));
}

static void map_limit(StoreItem *item) {
        call_check("limit", tslab_map_limit(map, item->key, STORE_KEY_SIZE - 1, 1000, 1000000, 1, NULL));
}

static void map_put_ttl(StoreItem *item, uint64_t ttl_ms) {
        struct tslab_map_put_options options = { .size = sizeof(options),
                                                 .epoch = TSLAB_EPOCH_CURRENT,
                                                 .ttl_ms = ttl_ms };

        call_check("put",
                   tslab_map_put_with(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size, &options));
}

#define TAG_NAME_SIZE 5

static const char tag_names[TSLAB_MAP_TAGS_MAX][TAG_NAME_SIZE] = { "tag0", "tag1", "tag2", "tag3" };
static tslab_handle tags[TSLAB_MAP_TAGS_MAX];

static void map_put_tagged(StoreItem *item, uint32_t n_tags) {
        struct tslab_map_put_options options = {
                .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT, .n_tags = n_tags, .tags = tags
        };

        for (uint32_t i = 0; i < n_tags; i++)
                if (tags[i] == 0)
                        call_check("tag", tslab_map_tag(map, tag_names[i], TAG_NAME_SIZE - 1,
                                                        TSLAB_EPOCH_CURRENT, &tags[i]));
        call_check("put",
                   tslab_map_put_with(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size, &options));
}

static void map_invalidate(void) {
        call_check("invalidate", tslab_map_invalidate(map, tag_names[0], TAG_NAME_SIZE - 1));
        tags[0] = 0;
}

/* Others may be reading the old object, so a new one takes its place. */
static void handle_update(StoreItem *item) {
        tslab_handle *place = &handles[item->number % HANDLES], handle;
        void *object;

        call_check("alloc", tslab_alloc(pool, item->size, TSLAB_EPOCH_CURRENT, &handle, &object));
        memcpy(object, item->value, item->size);
        handle = shm_xchg_acqrel(place, handle);
        if (handle != 0)
                call_check("free", tslab_free(pool, handle));
}

static void handle_read(StoreItem *item) {
        call_check("read", tslab_read(pool, handles[item->number % HANDLES], item->value, item->size));
}

/* Checks the handle and finds the object; looks only at the bytes that are compared. */
static void handle_get(StoreItem *item) {
        void *object;

        call_check("get", tslab_get(pool, handles[item->number % HANDLES], &object, NULL));
        memcpy(item->value, object, sizeof(item->number));
}

/* As above, for a session in the processor's cache, which leaves the time for the check and the lookup alone. */
static void handle_get_hot(StoreItem *item) {
        void *object;

        call_check("get", tslab_get(pool, handles[0], &object, NULL));
        __asm__ volatile("" : : "r"(object) : "memory");
        memcpy(item->value, &item->number, sizeof(item->number));
}

const Store store_tslab = {
        .name = "tslab",
        .n_operations = 1000000,
        .is_inherited = true,
        .open = tslab_store_open,
        .close = tslab_store_close,
        .put = map_put,
        .get = map_get,
        .remove = map_delete,
        .find = map_find,
        .cost = map_cost,
        .entries = map_entries,
        .index_bytes = map_index_bytes,
        .add = map_add,
        .find_counter = map_find_counter,
        .add_at = map_add_at,
        .limit = map_limit,
        .put_ttl = map_put_ttl,
        .put_tagged = map_put_tagged,
        .invalidate = map_invalidate,
        .bytes = map_bytes,
        .sessions = {
                { "handle_put", false, handle_update },
                { "handle_read", true, handle_read },
                { "handle_get", true, handle_get },
                { "handle_get_hot", true, handle_get_hot },
        },
};
