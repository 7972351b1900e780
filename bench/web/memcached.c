/* Sessions in memcached, by libmemcached. */
#include <string.h>

#include <libmemcached/memcached.h>

#include "bench/web/store.h"

static memcached_st *session;

static void open_memcached(const char *socket, uint32_t n_keys) {
        session = memcached_create(NULL);
        if (!session || memcached_server_add_unix_socket(session, socket) != MEMCACHED_SUCCESS)
                bench_fail("memcached: no connection");
}

static void memcached_session_put(uint32_t number, const char *key, char *value) {
        if (memcached_set(session, key, WEB_KEY_SIZE - 1, value, WEB_VALUE_SIZE, 0, 0) != MEMCACHED_SUCCESS)
                bench_fail("memcached does not set: %s", memcached_last_error_message(session));
}

static void memcached_session_get(uint32_t number, const char *key, char *value) {
        memcached_return_t r;
        uint32_t flags;
        size_t size;
        char *found = memcached_get(session, key, WEB_KEY_SIZE - 1, &size, &flags, &r);

        if (!found || size != WEB_VALUE_SIZE)
                bench_fail("memcached does not get: %s", memcached_last_error_message(session));
        memcpy(value, found, WEB_VALUE_SIZE);
        free(found);
}

const WebStore web_memcached = {
        .name = "memcached",
        .n_operations = 10000,
        .open = open_memcached,
        .operations = { { "put", false, memcached_session_put }, { "get", true, memcached_session_get } },
};
