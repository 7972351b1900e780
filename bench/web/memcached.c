/* memcached, by libmemcached. */
#include <string.h>

#include <libmemcached/memcached.h>

#include "bench/web/store.h"

static memcached_st *session;
static bool may_refuse;

static void memcached_open(const StoreOptions *options) {
        may_refuse = options->may_refuse;
        session = memcached_create(NULL);
        if (!session || memcached_server_add_unix_socket(session, options->socket) != MEMCACHED_SUCCESS)
                bench_fail("memcached: no connection");
}

static void memcached_check(const char *what, memcached_return_t r) {
        if (r != MEMCACHED_SUCCESS)
                bench_fail("memcached does not %s: %s", what, memcached_strerror(session, r));
}

static void memcached_put_value(StoreItem *item) {
        memcached_return_t r =
                memcached_set(session, item->key, STORE_KEY_SIZE - 1, item->value, item->size, 0, 0);

        /* Where small items have most of the memory, it evicts some large ones, then gives up. */
        if (!may_refuse || r != MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE)
                memcached_check("set", r);
}

static bool memcached_find(StoreItem *item) {
        memcached_return_t r;
        uint32_t flags;
        size_t size;
        char *found = memcached_get(session, item->key, STORE_KEY_SIZE - 1, &size, &flags, &r);

        if (r == MEMCACHED_NOTFOUND)
                return false;
        memcached_check("get", r);
        if (!found || size != item->size)
                bench_fail("memcached gets %zu bytes", size);
        memcpy(item->value, found, size);
        free(found);
        return true;
}

static void memcached_get_value(StoreItem *item) {
        if (!memcached_find(item))
                bench_fail("memcached does not find a key");
}

static void memcached_delete_key(StoreItem *item) {
        memcached_check("delete", memcached_delete(session, item->key, STORE_KEY_SIZE - 1, 0));
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
        .remove = memcached_delete_key,
        .find = memcached_find,
        .add = memcached_add_one,
};
