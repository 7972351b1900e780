/*
 * The functions of APCu, on a map of the pool: with tslab.apcu_compat=1, if the extension apcu is not loaded. README.md
 * lists the differences.
 */
#include "apcu.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include <zend_exceptions.h>
#include <zend_interfaces.h>

#include "apcu_arginfo.h"

/* tslab.cache in tslab.pool, which evicts, as APCu does by wiping all. */
TslabMap *php_tslab_apcu_map_slow(void) {
        const struct tslab_map_options options = {
                .size = sizeof(options),
                .evict = TSLAB_MAP_EVICT_SIEVE,
                .limit_bytes = (uint64_t) TSLAB_G(cache_limit),
                .value_max = TSLAB_CACHE_VALUE_MAX,
        };
        zend_string *name;

        name = zend_string_init(TSLAB_G(pool), strlen(TSLAB_G(pool)), false);
        TslabPool *pool = php_tslab_pool_get(name);
        zend_string_release(name);
        name = zend_string_init(TSLAB_G(cache), strlen(TSLAB_G(cache)), false);
        TSLAB_G(apcu_map) = php_tslab_map_get(pool, name, &options);
        zend_string_release(name);
        return TSLAB_G(apcu_map);
}

void php_tslab_apcu_failed(int r) {
        if (r < 0 && !php_tslab_is_miss(r) && r != -EINVAL && !EG(exception))
                php_tslab_log_seldom(&php_tslab_apcu_map()->next_log_ms, "a call of apcu failed: map",
                                     TSLAB_G(cache), r);
}

/* APCu's lifetime: 0 is none. One below 0 is over already, see apcu_put(); a counter has the shortest then. */
static uint64_t apcu_ttl(zend_long seconds) {
        uint64_t ms = TSLAB_MAP_TTL_NONE;

        if (seconds != 0 && php_tslab_ttl_ms((double) seconds, &ms) < 0)
                ms = 1;
        return ms;
}

static bool apcu_put(zend_string *key, zval *value, zend_long ttl, uint32_t mode) {
        int r = php_tslab_cache_set(php_tslab_apcu_map(), key, value, mode, 0, apcu_ttl(ttl));

        if (ttl < 0 || (r < 0 && mode == TSLAB_MAP_PUT))
                (void) php_tslab_map_remove(php_tslab_apcu_map(), key,
                                            0); /* nobody reads the old value after a store */
        php_tslab_apcu_failed(r);
        return r == 0;
}

static void apcu_put_all(INTERNAL_FUNCTION_PARAMETERS, uint32_t mode) {
        zval *key, *value = NULL, *entry, refused;
        zend_long ttl = 0;
        zend_string *name;
        zend_ulong index;

        ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_ZVAL(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(value)
        Z_PARAM_LONG(ttl)
        ZEND_PARSE_PARAMETERS_END();

        if (Z_TYPE_P(key) == IS_STRING && value)
                RETURN_BOOL(apcu_put(Z_STR_P(key), value, ttl, mode));
        if (Z_TYPE_P(key) == IS_STRING) {
                zend_argument_error(zend_ce_argument_count_error, 2,
                                    "must be given if argument #1 ($key) is a string");
                RETURN_THROWS();
        }
        if (Z_TYPE_P(key) != IS_ARRAY) {
                php_error_docref(NULL, E_WARNING,
                                 "expects key parameter to be a string or an array of key/value pairs");
                RETURN_FALSE;
        }
        array_init(return_value);
        ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(key), index, name, entry) {
                name = name ? zend_string_copy(name) : zend_long_to_str((zend_long) index);
                ZVAL_LONG(&refused, -1);
                if (!apcu_put(name, entry, ttl, mode))
                        zend_symtable_update(Z_ARRVAL_P(return_value), name, &refused);
                zend_string_release(name);
                if (EG(exception))
                        return;
        }
        ZEND_HASH_FOREACH_END();
}

PHP_FUNCTION(apcu_store) {
        apcu_put_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, TSLAB_MAP_PUT);
}

PHP_FUNCTION(apcu_add) {
        apcu_put_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, TSLAB_MAP_INSERT);
}

static bool apcu_get(zend_string *key, zval *ret) {
        struct tslab_map_info info;
        int r;

        r = php_tslab_cache_get(php_tslab_apcu_map(), key, 0, ret, &info);
        if (EXPECTED(r == 0))
                return true;
        php_tslab_apcu_failed(r);
        return false;
}

/* Returns a key as APCu takes it: text, or a number. NULL: a warning was given. */
static zend_string *apcu_key(zval *key, const char *expected) {
        if (Z_TYPE_P(key) == IS_STRING)
                return zend_string_copy(Z_STR_P(key));
        if (Z_TYPE_P(key) == IS_LONG)
                return zend_long_to_str(Z_LVAL_P(key));
        php_error_docref(NULL, E_WARNING, "expects a string%s", expected);
        return NULL;
}

PHP_FUNCTION(apcu_fetch) {
        zval *key, *success = NULL, *entry, value;
        zend_string *name;
        bool found;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ZVAL(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(success)
        ZEND_PARSE_PARAMETERS_END();

        if (EXPECTED(Z_TYPE_P(key) == IS_STRING)) {
                found = apcu_get(Z_STR_P(key), return_value);
                if (!found)
                        ZVAL_FALSE(return_value);
        } else if (Z_TYPE_P(key) == IS_ARRAY) {
                found = true;
                array_init(return_value);
                ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(key), entry) {
                        ZVAL_DEREF(entry);
                        name = apcu_key(entry, " or array of strings");
                        if (!name)
                                continue;
                        if (apcu_get(name, &value))
                                zend_symtable_update(Z_ARRVAL_P(return_value), name, &value);
                        zend_string_release(name);
                }
                ZEND_HASH_FOREACH_END();
        } else {
                name = zval_try_get_string(key);
                if (!name)
                        RETURN_THROWS();
                found = apcu_get(name, return_value);
                zend_string_release(name);
                if (!found)
                        ZVAL_FALSE(return_value);
        }
        if (success)
                ZEND_TRY_ASSIGN_REF_BOOL(success, found);
}

static bool apcu_has(zend_string *key) {
        struct tslab_map_info info;
        int r = php_tslab_map_describe(php_tslab_apcu_map(), key, &info);

        php_tslab_apcu_failed(r);
        return r == 0;
}

PHP_FUNCTION(apcu_exists) {
        zval *key, *entry, yes;
        zend_string *name;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ZVAL(key)
        ZEND_PARSE_PARAMETERS_END();

        if (Z_TYPE_P(key) != IS_ARRAY) {
                name = zval_try_get_string(key);
                if (!name)
                        RETURN_THROWS();
                RETVAL_BOOL(apcu_has(name));
                zend_string_release(name);
                return;
        }
        array_init(return_value);
        ZVAL_TRUE(&yes);
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(key), entry) {
                ZVAL_DEREF(entry);
                name = apcu_key(entry, " or array of strings");
                if (!name)
                        continue;
                if (apcu_has(name))
                        zend_symtable_update(Z_ARRVAL_P(return_value), name, &yes);
                zend_string_release(name);
        }
        ZEND_HASH_FOREACH_END();
}

static bool apcu_remove(zend_string *key) {
        int r = php_tslab_map_remove(php_tslab_apcu_map(), key, 0);

        php_tslab_apcu_failed(r);
        return r == 0;
}

/* Deletes all keys that the iterator has, in one go. */
static void apcu_remove_each(zval *iterator) {
        zend_class_entry *ce = Z_OBJCE_P(iterator);
        zend_object_iterator *walk = ce->get_iterator(ce, iterator, 0);
        zval key;

        if (!walk)
                return;
        if (walk->funcs->rewind)
                walk->funcs->rewind(walk);
        while (!EG(exception) && walk->funcs->valid(walk) == SUCCESS) {
                walk->funcs->get_current_key(walk, &key);
                if (Z_TYPE(key) == IS_STRING)
                        (void) apcu_remove(Z_STR(key));
                zval_ptr_dtor(&key);
                walk->funcs->move_forward(walk);
        }
        zend_iterator_dtor(walk);
}

PHP_FUNCTION(apcu_delete) {
        zval *key, *entry;
        zend_string *name;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ZVAL(key)
        ZEND_PARSE_PARAMETERS_END();

        if (Z_TYPE_P(key) == IS_STRING)
                RETURN_BOOL(apcu_remove(Z_STR_P(key)));
        if (php_tslab_apcu_is_iterator(key)) {
                apcu_remove_each(key);
                RETURN_BOOL(!EG(exception));
        }
        if (Z_TYPE_P(key) != IS_ARRAY) {
                php_error_docref(NULL, E_WARNING,
                                 "expects a string, array of strings, or APCUIterator instance");
                RETURN_FALSE;
        }
        array_init(return_value);
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(key), entry) {
                ZVAL_DEREF(entry);
                if (Z_TYPE_P(entry) != IS_STRING) {
                        php_error_docref(NULL, E_WARNING,
                                         "expects a string, array of strings, or APCUIterator instance");
                        Z_TRY_ADDREF_P(entry);
                        add_next_index_zval(return_value, entry);
                        continue;
                }
                name = Z_STR_P(entry);
                if (!apcu_remove(name))
                        add_next_index_str(return_value, zend_string_copy(name));
        }
        ZEND_HASH_FOREACH_END();
}

static void apcu_step(INTERNAL_FUNCTION_PARAMETERS, bool is_negative) {
        zend_long step = 1, ttl = 0;
        zval *success = NULL;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 4)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(step)
        Z_PARAM_ZVAL(success)
        Z_PARAM_LONG(ttl)
        ZEND_PARSE_PARAMETERS_END();

        if (is_negative)
                step = (zend_long) - (zend_ulong) step;
        r = php_tslab_cache_step(php_tslab_apcu_map(), key, step, apcu_ttl(ttl), return_value);
        if (r < 0) {
                ZVAL_FALSE(return_value);
                php_tslab_apcu_failed(r);
        }
        if (success)
                ZEND_TRY_ASSIGN_REF_BOOL(success, r == 0);
}

PHP_FUNCTION(apcu_inc) {
        apcu_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

PHP_FUNCTION(apcu_dec) {
        apcu_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

PHP_FUNCTION(apcu_cas) {
        zend_long old, new;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_STR(key)
        Z_PARAM_LONG(old)
        Z_PARAM_LONG(new)
        ZEND_PARSE_PARAMETERS_END();

        r = php_tslab_cache_swap(php_tslab_apcu_map(), key, old, new);
        php_tslab_apcu_failed(r);
        RETURN_BOOL(r == 0);
}

PHP_FUNCTION(apcu_entry) {
        zend_fcall_info_cache cache;
        zend_fcall_info call;
        zend_long ttl = 0;
        zend_string *key;
        zval argument;

        ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(key)
        Z_PARAM_FUNC(call, cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(ttl)
        ZEND_PARSE_PARAMETERS_END();

        ZVAL_STR(&argument, key);
        (void) php_tslab_cache_compute(php_tslab_apcu_map(), key, &call, &cache, &argument, apcu_ttl(ttl), 30,
                                       return_value);
}

PHP_FUNCTION(apcu_clear_cache) {
        ZEND_PARSE_PARAMETERS_NONE();
        php_tslab_apcu_failed(php_tslab_map_clear(php_tslab_apcu_map()));
        RETURN_TRUE;
}

PHP_FUNCTION(apcu_enabled) {
        ZEND_PARSE_PARAMETERS_NONE();
        RETURN_TRUE;
}

/*
 * The extension "apcu" that programs look for. Its settings that programs read are there, too.
 */
PHP_INI_BEGIN()
PHP_INI_ENTRY("apc.enabled", "1", PHP_INI_SYSTEM, NULL)
PHP_INI_ENTRY("apc.enable_cli", "1", PHP_INI_SYSTEM, NULL)
PHP_INI_END()

static PHP_MINIT_FUNCTION(apcu) {
        static const struct {
                const char *name;
                zend_long value;
        } constants[] = {
                { "APC_LIST_ACTIVE", 1 },
                { "APC_LIST_DELETED", 2 },
                { "APC_ITER_TYPE", ITER_TYPE },
                { "APC_ITER_KEY", ITER_KEY },
                { "APC_ITER_VALUE", ITER_VALUE },
                { "APC_ITER_NUM_HITS", ITER_NUM_HITS },
                { "APC_ITER_MTIME", ITER_MTIME },
                { "APC_ITER_CTIME", ITER_CTIME },
                { "APC_ITER_DTIME", ITER_DTIME },
                { "APC_ITER_ATIME", ITER_ATIME },
                { "APC_ITER_REFCOUNT", ITER_REFCOUNT },
                { "APC_ITER_MEM_SIZE", ITER_MEM_SIZE },
                { "APC_ITER_TTL", ITER_TTL },
                { "APC_ITER_NONE", 0 },
                { "APC_ITER_ALL", (zend_long) UINT32_MAX },
        };

        for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
                zend_register_long_constant(constants[i].name, strlen(constants[i].name), constants[i].value,
                                            CONST_CS | CONST_PERSISTENT, module_number);
        REGISTER_INI_ENTRIES();
        php_tslab_apcu_iterator_init(register_class_APCUIterator(zend_ce_iterator));
        return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(apcu) {
        UNREGISTER_INI_ENTRIES();
        return SUCCESS;
}

static zend_module_entry apcu_module = {
        STANDARD_MODULE_HEADER,
        "apcu",
        ext_functions,
        PHP_MINIT(apcu),
        PHP_MSHUTDOWN(apcu),
        NULL,
        NULL,
        NULL,
        PHP_TSLAB_VERSION,
        STANDARD_MODULE_PROPERTIES,
};

/* Makes the module known; the engine, which is starting modules just now, starts it after this one. */
void php_tslab_apcu_init(void) {
        if (!zend_hash_str_exists(&module_registry, ZEND_STRL("apcu")))
                zend_register_internal_module(&apcu_module);
}
