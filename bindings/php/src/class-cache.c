/*
 * Tslab\Cache: values that can be made again.
 */
#include "classes.h"

#include <errno.h>

#include <math.h>

#include <ext/date/php_date.h>
#include <ext/spl/spl_iterators.h>
#include <zend_exceptions.h>
#include <zend_interfaces.h>

/* The seconds of a DateInterval, from now on. */
static double interval_seconds(zval *interval) {
        zval now, end;
        double seconds;

        php_date_instantiate(php_date_get_immutable_ce(), &now);
        php_date_initialize(Z_PHPDATE_P(&now), "now", 3, NULL, NULL, 0);
        zend_call_method_with_1_params(Z_OBJ(now), Z_OBJCE(now), NULL, "add", &end, interval);
        if (EG(exception))
                seconds = NAN;
        else
                seconds = (double) (Z_PHPDATE_P(&end)->time->sse - Z_PHPDATE_P(&now)->time->sse);
        zval_ptr_dtor(&now);
        zval_ptr_dtor(&end);
        return seconds;
}

/*
 * Reads the lifetime of a cached value: null is that of the cache. *ret_is_over says that it is over already: of 0 or
 * less, which PSR-16 takes as a deletion.
 */
int php_tslab_read_cache_ttl(zval *ttl, uint64_t fallback_ms, uint32_t argument, uint64_t *ret_ms,
                             bool *ret_is_over) {
        double seconds;

        *ret_is_over = false;
        if (!ttl || Z_TYPE_P(ttl) == IS_NULL) {
                *ret_ms = fallback_ms;
                return 0;
        }
        if (Z_TYPE_P(ttl) == IS_OBJECT && instanceof_function(Z_OBJCE_P(ttl), php_date_get_interval_ce()))
                seconds = interval_seconds(ttl);
        else if (Z_TYPE_P(ttl) == IS_LONG || Z_TYPE_P(ttl) == IS_DOUBLE)
                seconds = zval_get_double(ttl);
        else
                seconds = NAN;
        if (isnan(seconds)) {
                if (!EG(exception))
                        zend_argument_type_error(argument,
                                                 "must be of type DateInterval|int|float|null, %s given",
                                                 zend_zval_type_name(ttl));
                return -EINVAL;
        }
        *ret_is_over = php_tslab_ttl_ms(seconds, ret_ms) < 0;
        return 0;
}

ZEND_METHOD(Tslab_Cache, __construct) {
        zend_string *name = NULL;
        HashTable *options = NULL;
        zval *pool = NULL;
        bool ttl_is_null = true;
        double ttl = 0;

        ZEND_PARSE_PARAMETERS_START(0, 4)
        Z_PARAM_OPTIONAL
        Z_PARAM_OBJECT_OF_CLASS_OR_NULL(pool, php_tslab_ce_pool)
        Z_PARAM_PATH_STR(name)
        Z_PARAM_DOUBLE_OR_NULL(ttl, ttl_is_null)
        Z_PARAM_ARRAY_HT(options)
        ZEND_PARSE_PARAMETERS_END();

        name = name ? zend_string_copy(name) : zend_string_init(ZEND_STRL("cache"), false);
        (void) php_tslab_cache_construct(THIS(),
                                         pool ? object_of(Z_OBJ_P(pool))->pool : php_tslab_pool_of_name(NULL),
                                         name, ttl, ttl_is_null, options);
        zend_string_release(name);
}

/* Logs a failure that is more than a miss; whether an exception, as of a serializer, is to be thrown. */
bool php_tslab_cache_failed(TslabMap *map, const char *what, int r) {
        if (EG(exception))
                return true;
        if (r < 0 && !php_tslab_is_miss(r))
                php_tslab_log_seldom(&map->next_log_ms, what, ZSTR_VAL(map->name), r);
        return false;
}

ZEND_METHOD(Tslab_Cache, get) {
        struct tslab_map_info info;
        zval *fallback = NULL;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(fallback)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_cache_get(map, key, 0, return_value, &info);
        if (EXPECTED(r == 0))
                return;
        (void) php_tslab_cache_failed(map, "a value could not be read: map", r);
        if (fallback)
                RETURN_COPY(fallback);
}

/* Sets a value. If the map does not take it, nobody reads the old one either. */
int php_tslab_cache_store(TslabMap *map, zend_string *key, zval *value, uint64_t ttl_ms, bool is_over) {
        int r = is_over ? 0 : php_tslab_cache_set(map, key, value, TSLAB_MAP_PUT, 0, ttl_ms);

        if (r < 0 || is_over)
                (void) php_tslab_map_remove(map, key, 0);
        return r;
}

/* set() and add(): what is over already is deleted, or not added. */
static void cache_put(INTERNAL_FUNCTION_PARAMETERS, bool is_add) {
        zval *value, *ttl = NULL;
        zend_string *key;
        uint64_t ttl_ms;
        bool is_over;
        int r;

        ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(key)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(ttl)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_cache_ttl(ttl, THIS()->ttl_ms, 3, &ttl_ms, &is_over) < 0)
                RETURN_THROWS();
        if (!is_add)
                r = php_tslab_cache_store(map, key, value, ttl_ms, is_over);
        else if (is_over)
                RETURN_FALSE;
        else
                r = php_tslab_cache_set(map, key, value, TSLAB_MAP_INSERT, 0, ttl_ms);
        if (php_tslab_cache_failed(map, "a value could not be set: map", r))
                RETURN_THROWS();
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Cache, set) {
        cache_put(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Tslab_Cache, add) {
        cache_put(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Tslab_Cache, has) {
        struct tslab_map_info info;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_describe(map, key, &info);
        (void) php_tslab_cache_failed(map, "a value could not be looked for: map", r);
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Cache, delete) {
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_remove(map, key, 0);
        (void) php_tslab_cache_failed(map, "a value could not be deleted: map", r);
        RETURN_BOOL(r == 0 || r == -ENOENT);
}

ZEND_METHOD(Tslab_Cache, clear) {
        int r;

        ZEND_PARSE_PARAMETERS_NONE();
        MAP_OR_RETURN(map);
        r = php_tslab_map_clear(map);
        (void) php_tslab_cache_failed(map, "the values could not be deleted: map", r);
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Cache, getOrCompute) {
        zend_fcall_info_cache cache;
        zend_fcall_info call;
        zval *ttl = NULL, argument;
        zend_string *key;
        double timeout = 30;
        uint64_t ttl_ms;
        bool is_over;

        ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_STR(key)
        Z_PARAM_FUNC(call, cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(ttl)
        Z_PARAM_DOUBLE(timeout)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_cache_ttl(ttl, THIS()->ttl_ms, 3, &ttl_ms, &is_over) < 0)
                RETURN_THROWS();
        if (!(timeout >= 0)) {
                zend_argument_value_error(4, "must be 0 or more");
                RETURN_THROWS();
        }
        ZVAL_STR(&argument, key);
        if (is_over)
                ttl_ms = 1;
        (void) php_tslab_cache_compute(map, key, &call, &cache, &argument, ttl_ms, timeout, return_value);
}

ZEND_METHOD(Tslab_Cache, increment) {
        zend_long delta = 1, initial = 0;
        zval *ttl = NULL;
        zend_string *key;
        uint64_t ttl_ms;
        bool is_over;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 4)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(delta)
        Z_PARAM_LONG(initial)
        Z_PARAM_ZVAL(ttl)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_cache_ttl(ttl, THIS()->ttl_ms, 4, &ttl_ms, &is_over) < 0)
                RETURN_THROWS();
        r = php_tslab_cache_increment(map, key, delta, initial, is_over ? 1 : ttl_ms, return_value);
        if (r < 0) {
                ZVAL_NULL(return_value);
                if (r != -EINVAL)
                        (void) php_tslab_cache_failed(map, "a number could not be changed: map", r);
        }
}

ZEND_METHOD(Tslab_Cache, touch) {
        zval *ttl = NULL;
        zend_string *key;
        uint64_t ttl_ms;
        bool is_over;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(ttl)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_cache_ttl(ttl, THIS()->ttl_ms, 2, &ttl_ms, &is_over) < 0)
                RETURN_THROWS();
        r = is_over ? php_tslab_map_remove(map, key, 0) : php_tslab_map_prolong(map, key, ttl_ms);
        (void) php_tslab_cache_failed(map, "a lifetime could not be changed: map", r);
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Cache, pop) {
        struct tslab_map_info info;
        zend_string *key, *data;
        zval *fallback = NULL;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(fallback)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        r = php_tslab_map_take_value(map, key, &data, &info);
        if (r == 0) {
                r = php_tslab_value_unpack(data, info.flags, return_value);
                if (r == 0)
                        return;
                zend_clear_exception();
        }
        (void) php_tslab_cache_failed(map, "a value could not be taken: map", r);
        if (fallback)
                RETURN_COPY(fallback);
}

ZEND_METHOD(Tslab_Cache, map) {
        ZEND_PARSE_PARAMETERS_NONE();
        MAP_OR_RETURN(map);
        object_init_ex(return_value, php_tslab_ce_map);
        object_of(Z_OBJ_P(return_value))->map = map;
}
