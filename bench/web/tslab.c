/* Sessions in a private pool: by handle, and by key in a map. */
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/store.h"

static struct tslab *pool;
static struct tslab_map *map;
static tslab_handle *handles;

static void call_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

static void open_pool(const char *socket, uint32_t n_keys) {
        call_check("create", tslab_create(&pool, NULL));
        call_check("map", tslab_map_open(&map, pool, "sessions", NULL));
        handles = calloc(n_keys, sizeof(*handles));
        for (uint32_t i = 0; i < n_keys; i++) {
                void *object;

                call_check("alloc",
                           tslab_alloc(pool, WEB_VALUE_SIZE, TSLAB_EPOCH_CURRENT, &handles[i], &object));
                memcpy(object, &i, sizeof(i));
        }
}

/* Checks the handle and finds the object; looks only at the bytes that are compared. */
static void session_get(uint32_t number, const char *key, char *value) {
        void *object;

        call_check("get", tslab_get(pool, handles[number], &object, NULL));
        memcpy(value, object, sizeof(number));
}

/* The same for a session in the processor's cache, which leaves the time for the check and the lookup alone. */
static void session_get_hot(uint32_t number, const char *key, char *value) {
        void *object;

        call_check("get", tslab_get(pool, handles[0], &object, NULL));
        __asm__ volatile("" : : "r"(object) : "memory");
        memcpy(value, &number, sizeof(number));
}

static void session_read(uint32_t number, const char *key, char *value) {
        call_check("read", tslab_read(pool, handles[number], value, WEB_VALUE_SIZE));
}

/* Others may be reading the old object, so a new one takes its place. */
static void session_update(uint32_t number, const char *key, char *value) {
        tslab_handle handle;
        void *object;

        call_check("alloc", tslab_alloc(pool, WEB_VALUE_SIZE, TSLAB_EPOCH_CURRENT, &handle, &object));
        memcpy(object, value, WEB_VALUE_SIZE);
        handle = shm_xchg_acqrel(&handles[number], handle);
        call_check("free", tslab_free(pool, handle));
}

static void map_put(uint32_t number, const char *key, char *value) {
        call_check("put",
                   tslab_map_put(map, key, WEB_KEY_SIZE - 1, value, WEB_VALUE_SIZE, TSLAB_EPOCH_CURRENT));
}

static void map_get(uint32_t number, const char *key, char *value) {
        call_check("map get", tslab_map_get(map, key, WEB_KEY_SIZE - 1, value, WEB_VALUE_SIZE, NULL));
}

const WebStore web_tslab = {
        .name = "tslab",
        .n_operations = 1000000,
        .open = open_pool,
        .operations = {
                { "map_put", false, map_put },
                { "map_get", true, map_get },
                { "update", false, session_update },
                { "read", true, session_read },
                { "get", true, session_get },
                { "get_hot", true, session_get_hot },
        },
};
