/*
 * Tslab\Map: claims of keys, and all that is known of an entry.
 */
#include "classes.h"

#include <errno.h>

static void claim_throw(TslabMap *map, int error) {
        php_tslab_throw(error, "map", ZSTR_VAL(map->name));
}

ZEND_METHOD(Tslab_Map, info) {
        struct tslab_map_info info = { .size = sizeof(info) };
        zend_string *key, *value;
        bool stale = false;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(stale)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        info.accept = stale ? TSLAB_MAP_STALE : 0;
        r = php_tslab_map_get_value(map, key, &value, &info);
        if (r == -ENOENT)
                RETURN_NULL();
        if (r < 0) {
                claim_throw(map, r);
                RETURN_THROWS();
        }
        array_init(return_value);
        add_assoc_str(return_value, "value", value);
        add_assoc_long(return_value, "version", (zend_long) info.version);
        add_assoc_double(return_value, "ttl",
                         info.ttl_left_ms == UINT64_MAX ? ZEND_INFINITY : (double) info.ttl_left_ms / 1000);
        add_assoc_bool(return_value, "stale", (info.flags & TSLAB_MAP_STALE) != 0);
        add_assoc_bool(return_value, "counter", (info.flags & TSLAB_MAP_COUNTER) != 0);
}

ZEND_METHOD(Tslab_Map, claim) {
        bool limit_is_null = true;
        tslab_handle version = 0;
        uint32_t limit_ms;
        double limit = 0;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(limit, limit_is_null)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_limit(limit, limit_is_null, 0, 2, &limit_ms) < 0)
                RETURN_THROWS();
        r = php_tslab_map_get_claim(map, key, limit_ms, &version);
        if (r == -EEXIST)
                RETURN_NULL();
        if (r < 0 && r != -EBUSY) {
                claim_throw(map, r);
                RETURN_THROWS();
        }
        array_init_size(return_value, 2);
        add_next_index_long(return_value, (zend_long) version);
        add_next_index_bool(return_value, r == 0);
}

ZEND_METHOD(Tslab_Map, extend) {
        zend_long number;
        tslab_handle version;
        uint32_t limit_ms;
        zend_string *key;
        double limit;
        int r;

        ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_STR(key)
        Z_PARAM_LONG(number)
        Z_PARAM_DOUBLE(limit)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_limit(limit, false, 0, 3, &limit_ms) < 0)
                RETURN_THROWS();
        version = (tslab_handle) number;
        r = php_tslab_map_extend_claim(map, key, limit_ms, &version);
        if (r == -EAGAIN)
                RETURN_NULL();
        if (r < 0) {
                claim_throw(map, r);
                RETURN_THROWS();
        }
        RETURN_LONG((zend_long) version);
}

ZEND_METHOD(Tslab_Map, wait) {
        double timeout = ZEND_INFINITY;
        zend_long version = 0;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(version)
        Z_PARAM_DOUBLE(timeout)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (!(timeout >= 0)) {
                zend_argument_value_error(3, "must be 0 or more");
                RETURN_THROWS();
        }
        r = php_tslab_map_wait_claim(map, key, (tslab_handle) version, timeout, TSLAB_SIGNALS_NOW);
        if (r < 0 && r != -ETIMEDOUT && r != -EINTR) {
                claim_throw(map, r);
                RETURN_THROWS();
        }
        RETURN_BOOL(r == 0);
}
