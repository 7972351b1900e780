/* memcached, by libmemcached. */
#include <string.h>

#include <libmemcached/memcached.h>

#include "bench/web/store.h"

static memcached_st *session;

static void memcached_open(const char *socket) {
        session = memcached_create(NULL);
        if (!session || memcached_server_add_unix_socket(session, socket) != MEMCACHED_SUCCESS)
                bench_fail("memcached: no connection");
}

static void memcached_check(const char *what, memcached_return_t r) {
        if (r != MEMCACHED_SUCCESS)
                bench_fail("memcached does not %s: %s", what, memcached_strerror(session, r));
}

static void memcached_put_value(StoreItem *item) {
        memcached_check("set",
                        memcached_set(session, item->key, STORE_KEY_SIZE - 1, item->value, item->size, 0, 0));
}

static void memcached_get_value(StoreItem *item) {
        memcached_return_t r;
        uint32_t flags;
        size_t size;
        char *found = memcached_get(session, item->key, STORE_KEY_SIZE - 1, &size, &flags, &r);

        memcached_check("get", r);
        if (!found || size != item->size)
                bench_fail("memcached gets %zu bytes", size);
        memcpy(item->value, found, size);
        free(found);
}

static void memcached_add_one(StoreItem *item) {
        uint64_t value;

        if (memcached_increment(session, item->key, STORE_KEY_SIZE - 1, 1, &value) == MEMCACHED_NOTFOUND)
                memcached_check("add", memcached_add(session, item->key, STORE_KEY_SIZE - 1, "1", 1, 0, 0));
}

const Store store_memcached = {
        .name = "memcached",
        .n_operations = 10000,
        .open = memcached_open,
        .put = memcached_put_value,
        .get = memcached_get_value,
        .add = memcached_add_one,
};
