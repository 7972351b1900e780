/*
 * Tslab\Cache: the calls on several keys, of PSR-16.
 */
#include "classes.h"

#include <errno.h>

#include <ext/spl/spl_iterators.h>
#include <zend_exceptions.h>
#include <zend_interfaces.h>

/* A walk over an iterable of keys, or of keys and values. */
typedef struct Visit {
        TslabMap *map;
        zval *to, *fallback;
        uint64_t ttl_ms;
        bool is_over, all, by_key;
        int (*call)(struct Visit *visit, zend_string *key, zval *value);
} Visit;

static int visit_one(Visit *visit, zval *key, zval *value) {
        zend_string *name = visit->by_key ? zval_try_get_string(key) : zval_try_get_string(value);
        int r;

        if (!name)
                return ZEND_HASH_APPLY_STOP;
        r = visit->call(visit, name, value);
        zend_string_release(name);
        return r < 0 ? ZEND_HASH_APPLY_STOP : ZEND_HASH_APPLY_KEEP;
}

static int visit_iterator(zend_object_iterator *iterator, void *context) {
        zval key, *value = iterator->funcs->get_current_data(iterator);
        int r;

        if (!value || EG(exception))
                return ZEND_HASH_APPLY_STOP;
        if (iterator->funcs->get_current_key)
                iterator->funcs->get_current_key(iterator, &key);
        else
                ZVAL_LONG(&key, (zend_long) iterator->index);
        r = EG(exception) ? ZEND_HASH_APPLY_STOP : visit_one(context, &key, value);
        zval_ptr_dtor(&key);
        return r;
}

static void visit_all(Visit *visit, zval *keys) {
        zend_string *name;
        zend_ulong index;
        zval *value, key;
        int r;

        if (Z_TYPE_P(keys) != IS_ARRAY) {
                (void) spl_iterator_apply(keys, visit_iterator, visit);
                return;
        }
        ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(keys), index, name, value) {
                if (name)
                        ZVAL_STR(&key, name);
                else
                        ZVAL_LONG(&key, (zend_long) index);
                r = visit_one(visit, &key, value);
                if (r == ZEND_HASH_APPLY_STOP)
                        return;
        }
        ZEND_HASH_FOREACH_END();
}

static int visit_get(Visit *visit, zend_string *key, zval *value) {
        struct tslab_map_info info;
        zval found;
        int r;

        r = php_tslab_cache_get(visit->map, key, 0, &found, &info);
        if (r < 0) {
                (void) php_tslab_cache_failed(visit->map, "a value could not be read: map", r);
                if (visit->fallback)
                        ZVAL_COPY(&found, visit->fallback);
                else
                        ZVAL_NULL(&found);
        }
        zend_symtable_update(Z_ARRVAL_P(visit->to), key, &found);
        return 0;
}

static int visit_set(Visit *visit, zend_string *key, zval *value) {
        int r = php_tslab_cache_store(visit->map, key, value, visit->ttl_ms, visit->is_over);

        if (php_tslab_cache_failed(visit->map, "a value could not be set: map", r))
                return -1;
        visit->all = visit->all && r == 0;
        return 0;
}

static int visit_delete(Visit *visit, zend_string *key, zval *value) {
        int r = php_tslab_map_remove(visit->map, key, 0);

        (void) php_tslab_cache_failed(visit->map, "a value could not be deleted: map", r);
        visit->all = visit->all && (r == 0 || r == -ENOENT);
        return 0;
}

ZEND_METHOD(Tslab_Cache, getMultiple) {
        zval *keys, *fallback = NULL;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ITERABLE(keys)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(fallback)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        array_init(return_value);
        visit_all(&(Visit){ .map = map, .to = return_value, .fallback = fallback, .call = visit_get }, keys);
}

ZEND_METHOD(Tslab_Cache, setMultiple) {
        Visit visit = { .all = true, .by_key = true, .call = visit_set };
        zval *values, *ttl = NULL;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ITERABLE(values)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(ttl)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_cache_ttl(ttl, THIS()->ttl_ms, 2, &visit.ttl_ms, &visit.is_over) < 0)
                RETURN_THROWS();
        visit.map = map;
        visit_all(&visit, values);
        RETURN_BOOL(visit.all);
}

ZEND_METHOD(Tslab_Cache, deleteMultiple) {
        Visit visit = { .all = true, .call = visit_delete };
        zval *keys;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ITERABLE(keys)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        visit.map = map;
        visit_all(&visit, keys);
        RETURN_BOOL(visit.all);
}
