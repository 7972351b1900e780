/*
 * Tslab\Map: strings by key.
 */
#include "classes.h"

#include <errno.h>

#include <zend_exceptions.h>
#include <zend_interfaces.h>

ZEND_METHOD(Tslab_Map, __construct) {
        zend_throw_error(NULL, "Use Tslab\\Pool::map()");
}

static void map_throw(TslabMap *map, int error) {
        if (!EG(exception))
                php_tslab_throw(error, "map", ZSTR_VAL(map->name));
}

ZEND_METHOD(Tslab_Map, get) {
        struct tslab_map_info info = { .size = sizeof(info) };
        zend_string *key, *value;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_get_value(map, key, &value, &info);
        if (EXPECTED(r == 0))
                RETURN_STR(value);
        if (r != -ENOENT)
                map_throw(map, r);
}

ZEND_METHOD(Tslab_Map, getVersion) {
        struct tslab_map_info info = { .size = sizeof(info) };
        zend_string *key, *value;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_get_value(map, key, &value, &info);
        if (r == 0) {
                array_init_size(return_value, 2);
                add_next_index_str(return_value, value);
                add_next_index_long(return_value, (zend_long) info.version);
        } else if (r != -ENOENT) {
                map_throw(map, r);
        }
}

/* Returns whether a call took effect; throws unless its error is a miss. */
static void map_return(TslabMap *map, int r, zval *return_value) {
        if (r < 0 && !php_tslab_is_miss(r))
                map_throw(map, r);
        else
                ZVAL_BOOL(return_value, r == 0);
}

/* Reads an array of what tag() returned. Throws if it is another thing. */
static bool read_tags(HashTable *array, uint32_t argument, tslab_handle tags[TSLAB_MAP_TAGS_MAX],
                      uint32_t *ret_n) {
        zval *tag;

        *ret_n = 0;
        if (!array)
                return true;
        if (zend_hash_num_elements(array) > TSLAB_MAP_TAGS_MAX) {
                zend_argument_value_error(argument, "has %d tags at most", TSLAB_MAP_TAGS_MAX);
                return false;
        }
        ZEND_HASH_FOREACH_VAL(array, tag) {
                ZVAL_DEREF(tag);
                if (Z_TYPE_P(tag) != IS_LONG) {
                        zend_argument_type_error(argument, "must be an array of tags, each from tag()");
                        return false;
                }
                tags[(*ret_n)++] = (tslab_handle) Z_LVAL_P(tag);
        }
        ZEND_HASH_FOREACH_END();
        return true;
}

/* put(), insert() and update() */
static void map_put(INTERNAL_FUNCTION_PARAMETERS, uint32_t mode) {
        tslab_handle tags[TSLAB_MAP_TAGS_MAX];
        HashTable *tag_array = NULL;
        zend_string *key, *value;
        bool ttl_is_null = true;
        uint32_t n_tags;
        double ttl = 0;
        uint64_t ttl_ms;
        int r;

        ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_STR(key)
        Z_PARAM_STR(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(ttl, ttl_is_null)
        Z_PARAM_ARRAY_HT(tag_array)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_ttl(ttl, ttl_is_null, 3, &ttl_ms) < 0 || !read_tags(tag_array, 4, tags, &n_tags))
                RETURN_THROWS();
        r = php_tslab_map_put_tagged(map, key, ZSTR_VAL(value), ZSTR_LEN(value), mode, 0, ttl_ms, tags,
                                     n_tags);
        if (mode != TSLAB_MAP_PUT)
                map_return(map, r, return_value);
        else if (r < 0)
                map_throw(map, r);
}

ZEND_METHOD(Tslab_Map, put) {
        map_put(INTERNAL_FUNCTION_PARAM_PASSTHRU, TSLAB_MAP_PUT);
}

ZEND_METHOD(Tslab_Map, insert) {
        map_put(INTERNAL_FUNCTION_PARAM_PASSTHRU, TSLAB_MAP_INSERT);
}

ZEND_METHOD(Tslab_Map, update) {
        map_put(INTERNAL_FUNCTION_PARAM_PASSTHRU, TSLAB_MAP_UPDATE);
}

ZEND_METHOD(Tslab_Map, replace) {
        tslab_handle tags[TSLAB_MAP_TAGS_MAX];
        HashTable *tag_array = NULL;
        zend_string *key, *value;
        bool ttl_is_null = true;
        zend_long version;
        uint32_t n_tags;
        double ttl = 0;
        uint64_t ttl_ms;
        int r;

        ZEND_PARSE_PARAMETERS_START(3, 5)
        Z_PARAM_STR(key)
        Z_PARAM_LONG(version)
        Z_PARAM_STR(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(ttl, ttl_is_null)
        Z_PARAM_ARRAY_HT(tag_array)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_ttl(ttl, ttl_is_null, 4, &ttl_ms) < 0 || !read_tags(tag_array, 5, tags, &n_tags))
                RETURN_THROWS();
        r = php_tslab_map_put_tagged(map, key, ZSTR_VAL(value), ZSTR_LEN(value), TSLAB_MAP_REPLACE,
                                     (tslab_handle) version, ttl_ms, tags, n_tags);
        map_return(map, r, return_value);
}

ZEND_METHOD(Tslab_Map, delete) {
        bool version_is_null = true;
        zend_long version = 0;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG_OR_NULL(version, version_is_null)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (!version_is_null && version == 0)
                RETURN_FALSE;
        r = php_tslab_map_remove(map, key, (tslab_handle) version);
        map_return(map, r, return_value);
}

ZEND_METHOD(Tslab_Map, pop) {
        struct tslab_map_info info;
        zend_string *key, *value;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_take_value(map, key, &value, &info);
        if (r == 0)
                RETURN_STR(value);
        if (r != -ENOENT)
                map_throw(map, r);
}

ZEND_METHOD(Tslab_Map, tag) {
        tslab_handle handle;
        zend_string *tag;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(tag)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_tag(map, tag, &handle);
        if (r == 0)
                RETURN_LONG((zend_long) handle);
        map_throw(map, r);
}

ZEND_METHOD(Tslab_Map, invalidate) {
        zend_string *tag;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(tag)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        map_return(map, php_tslab_map_invalidate(map, tag), return_value);
}

ZEND_METHOD(Tslab_Map, touch) {
        zend_string *key;
        uint64_t ttl_ms;
        double ttl;
        int r;

        ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(key)
        Z_PARAM_DOUBLE(ttl)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_ttl(ttl, false, 2, &ttl_ms) < 0)
                RETURN_THROWS();
        r = php_tslab_map_prolong(map, key, ttl_ms);
        map_return(map, r, return_value);
}

ZEND_METHOD(Tslab_Map, ttl) {
        struct tslab_map_info info;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_describe(map, key, &info);
        if (r == -ENOENT)
                RETURN_NULL();
        if (r < 0) {
                map_throw(map, r);
                RETURN_THROWS();
        }
        RETURN_DOUBLE(info.ttl_left_ms == UINT64_MAX ? ZEND_INFINITY : (double) info.ttl_left_ms / 1000);
}

ZEND_METHOD(Tslab_Map, add) {
        zend_long delta = 1, initial = 0, sum;
        bool ttl_is_null = true;
        zend_string *key;
        double ttl = 0;
        uint64_t ttl_ms;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 4)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(delta)
        Z_PARAM_LONG(initial)
        Z_PARAM_DOUBLE_OR_NULL(ttl, ttl_is_null)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_ttl(ttl, ttl_is_null, 4, &ttl_ms) < 0)
                RETURN_THROWS();
        r = php_tslab_map_increment(map, key, delta, initial, TSLAB_MAP_ADD, ttl_ms, &sum);
        if (r < 0) {
                map_throw(map, r);
                RETURN_THROWS();
        }
        RETURN_LONG(sum);
}

int php_tslab_take_tokens(TslabMap *map, zend_string *key, double per_second, zend_long burst, zend_long cost,
                          uint64_t *ret_ms) {
        if (burst < 0 || burst > UINT32_MAX || cost < 0 || cost > UINT32_MAX)
                return -EINVAL;
        return php_tslab_map_take_tokens(map, key, per_second, (uint32_t) burst, (uint32_t) cost, ret_ms);
}

ZEND_METHOD(Tslab_Map, limit) {
        zend_long burst, cost = 1;
        double per_second;
        zend_string *key;
        uint64_t retry_ms;
        int r;

        ZEND_PARSE_PARAMETERS_START(3, 4)
        Z_PARAM_STR(key)
        Z_PARAM_DOUBLE(per_second)
        Z_PARAM_LONG(burst)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(cost)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_take_tokens(map, key, per_second, burst, cost, &retry_ms);
        if (r < 0) {
                map_throw(map, r);
                RETURN_THROWS();
        }
        if (r == 1)
                RETURN_DOUBLE((double) retry_ms / 1000);
}

ZEND_METHOD(Tslab_Map, lock) {
        bool limit_is_null = true;
        uint32_t limit_ms;
        double limit = 0;
        zend_string *key;
        Object *lock;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(limit, limit_is_null)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_limit(limit, limit_is_null, 0, 2, &limit_ms) < 0)
                RETURN_THROWS();
        object_init_ex(return_value, php_tslab_ce_lock);
        lock = object_of(Z_OBJ_P(return_value));
        lock->map = map;
        lock->key = zend_string_copy(key);
        lock->limit_ms = limit_ms;
}

ZEND_METHOD(Tslab_Map, count) {
        struct tslab_map *live;
        ssize_t r;

        ZEND_PARSE_PARAMETERS_NONE();
        MAP_OR_RETURN(map);
        r = php_tslab_map_use(map, &live);
        if (r == 0)
                r = tslab_map_count(live);
        if (r < 0) {
                map_throw(map, (int) r);
                RETURN_THROWS();
        }
        RETURN_LONG(r);
}

ZEND_METHOD(Tslab_Map, clear) {
        int r;

        ZEND_PARSE_PARAMETERS_NONE();
        MAP_OR_RETURN(map);
        r = php_tslab_map_clear(map);
        if (r < 0)
                map_throw(map, r);
}

ZEND_METHOD(Tslab_Map, deletePrefix) {
        struct tslab_map_cursor cursor = { 0 };
        zend_string *prefix, *key;
        struct tslab_map *live;
        zend_long n = 0;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(prefix)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_use(map, &live);
        while (r == 0 && (key = php_tslab_map_next_key(map, &cursor, NULL))) {
                if (zend_string_starts_with(key, prefix)) {
                        r = php_tslab_map_remove(map, key, 0);
                        n += r == 0;
                        r = r == -ENOENT ? 0 : r;
                }
                zend_string_release(key);
        }
        if (r < 0) {
                map_throw(map, r);
                RETURN_THROWS();
        }
        RETURN_LONG(n);
}

ZEND_METHOD(Tslab_Map, statistics) {
        struct tslab_map_statistics counts = { .size = sizeof(counts) };
        struct tslab_map *live;
        int r;

        ZEND_PARSE_PARAMETERS_NONE();
        MAP_OR_RETURN(map);
        r = php_tslab_map_use(map, &live);
        if (r == 0)
                r = tslab_map_statistics(live, &counts);
        if (r < 0) {
                map_throw(map, r);
                RETURN_THROWS();
        }
        php_tslab_statistics_array(return_value, &counts);
}

ZEND_METHOD(Tslab_Map, getIterator) {
        ZEND_PARSE_PARAMETERS_NONE();
        zend_create_internal_iterator_zval(return_value, ZEND_THIS);
}
