/*
 * Tslab\Pool: a pool, by the path of its socket, and its maps.
 */
#include "classes.h"

#include <errno.h>

#include <string.h>

#include <zend_exceptions.h>

static void pool_object(zval *ret, TslabPool *pool) {
        object_init_ex(ret, php_tslab_ce_pool);
        object_of(Z_OBJ_P(ret))->pool = pool;
}

ZEND_METHOD(Tslab_Pool, __construct) {
        zend_throw_error(NULL, "Use Tslab\\Pool::open()");
}

TslabPool *php_tslab_pool_of_name(zend_string *socket) {
        zend_string *name = socket ? zend_string_copy(socket)
                                   : zend_string_init(TSLAB_G(pool), strlen(TSLAB_G(pool)), false);
        TslabPool *pool = php_tslab_pool_get(name);

        zend_string_release(name);
        return pool;
}

ZEND_METHOD(Tslab_Pool, open) {
        zend_string *socket = NULL;
        TslabPool *pool;
        int r;

        ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_PATH_STR_OR_NULL(socket)
        ZEND_PARSE_PARAMETERS_END();

        pool = php_tslab_pool_of_name(socket);
        r = php_tslab_pool_open(pool);
        if (r < 0) {
                php_tslab_throw(r, "pool", ZSTR_VAL(pool->socket));
                RETURN_THROWS();
        }
        pool_object(return_value, pool);
}

int php_tslab_read_options(HashTable *options, uint32_t argument, struct tslab_map_options *ret) {
        int r = php_tslab_options_read(options, ret);

        if (r < 0)
                zend_argument_value_error(
                        argument,
                        "must have the keys ttl, stale, limit_bytes, value_max or evict, with numbers "
                        "or 'sieve'");
        return r;
}

/* Finds the map, and opens it, so that trouble shows here. */
static TslabMap *map_open(TslabPool *pool, zend_string *name, const struct tslab_map_options *options) {
        TslabMap *map = php_tslab_map_get(pool, name, options);
        struct tslab_map *live;
        int r;

        r = php_tslab_map_use(map, &live);
        if (r < 0) {
                php_tslab_throw(r, "map", ZSTR_VAL(name));
                return NULL;
        }
        return map;
}

ZEND_METHOD(Tslab_Pool, map) {
        struct tslab_map_options options;
        HashTable *options_array = NULL;
        zend_string *name;
        TslabMap *map;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_PATH_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(options_array)
        ZEND_PARSE_PARAMETERS_END();

        if (php_tslab_read_options(options_array, 2, &options) < 0)
                RETURN_THROWS();
        map = map_open(THIS()->pool, name, &options);
        if (!map)
                RETURN_THROWS();
        object_init_ex(return_value, php_tslab_ce_map);
        object_of(Z_OBJ_P(return_value))->map = map;
}

int php_tslab_cache_construct(Object *object, TslabPool *pool, zend_string *name, double ttl,
                              bool ttl_is_null, HashTable *options_array) {
        struct tslab_map_options options;

        if (php_tslab_read_ttl(ttl, ttl_is_null, 3, &object->ttl_ms) < 0 ||
            php_tslab_read_options(options_array, 4, &options) < 0)
                return -EINVAL;
        if (!options.value_max)
                options.value_max = TSLAB_CACHE_VALUE_MAX;
        object->map = php_tslab_map_get(pool, name, &options);
        return 0;
}

ZEND_METHOD(Tslab_Pool, cache) {
        zend_string *name = NULL;
        HashTable *options = NULL;
        bool ttl_is_null = true;
        double ttl = 0;

        ZEND_PARSE_PARAMETERS_START(0, 3)
        Z_PARAM_OPTIONAL
        Z_PARAM_PATH_STR(name)
        Z_PARAM_DOUBLE_OR_NULL(ttl, ttl_is_null)
        Z_PARAM_ARRAY_HT(options)
        ZEND_PARSE_PARAMETERS_END();

        name = name ? zend_string_copy(name) : zend_string_init(ZEND_STRL("cache"), false);
        object_init_ex(return_value, php_tslab_ce_cache);
        (void) php_tslab_cache_construct(object_of(Z_OBJ_P(return_value)), THIS()->pool, name, ttl,
                                         ttl_is_null, options);
        zend_string_release(name);
}

ZEND_METHOD(Tslab_Pool, isOpen) {
        ZEND_PARSE_PARAMETERS_NONE();
        RETURN_BOOL(php_tslab_pool_open(THIS()->pool) == 0);
}

ZEND_METHOD(Tslab_Pool, statistics) {
        struct tslab_stats stats = { .size = sizeof(stats) };
        TslabPool *pool = THIS()->pool;
        int r;

        ZEND_PARSE_PARAMETERS_NONE();
        r = php_tslab_pool_open(pool);
        if (r == 0)
                r = tslab_stats(pool->pool, &stats);
        if (r < 0) {
                php_tslab_throw(r, "pool", ZSTR_VAL(pool->socket));
                RETURN_THROWS();
        }
        array_init(return_value);
        add_assoc_long(return_value, "live_objects", (zend_long) stats.live_objects);
        add_assoc_long(return_value, "live_bytes", (zend_long) stats.live_bytes);
        add_assoc_long(return_value, "cached_objects", (zend_long) stats.cached_objects);
        add_assoc_long(return_value, "committed_bytes", (zend_long) stats.committed_bytes);
        add_assoc_long(return_value, "retained_bytes", (zend_long) stats.retained_bytes);
        add_assoc_long(return_value, "allocs", (zend_long) stats.allocs);
        add_assoc_long(return_value, "frees", (zend_long) stats.frees);
        add_assoc_long(return_value, "failures", (zend_long) stats.failures);
        add_assoc_long(return_value, "threads", (zend_long) stats.threads);
        add_assoc_long(return_value, "capacity", (zend_long) tslab_capacity(pool->pool));
}
