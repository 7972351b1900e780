/*
 * The module: its settings, and its work when a process, a thread or a request begins or ends.
 */
#include "classes.h"
#include "session/engine.h"

#include <string.h>

#include <SAPI.h>
#include <ext/standard/info.h>

ZEND_DECLARE_MODULE_GLOBALS(tslab)

static PHP_INI_MH(on_serializer) {
        if (!php_tslab_value_is_serializer(ZSTR_VAL(new_value))) {
                zend_error(E_WARNING, "tslab.serializer must be php, json, igbinary or msgpack");
                return FAILURE;
        }
        return OnUpdateString(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

PHP_INI_BEGIN()
STD_PHP_INI_ENTRY("tslab.pool", "", PHP_INI_SYSTEM, OnUpdateString, pool, zend_tslab_globals, tslab_globals)
STD_PHP_INI_ENTRY("tslab.cache", "cache", PHP_INI_SYSTEM, OnUpdateString, cache, zend_tslab_globals,
                  tslab_globals)
STD_PHP_INI_ENTRY("tslab.cache_limit", "0", PHP_INI_SYSTEM, OnUpdateLongGEZero, cache_limit,
                  zend_tslab_globals, tslab_globals)
STD_PHP_INI_ENTRY("tslab.serializer", "php", PHP_INI_ALL, on_serializer, serializer, zend_tslab_globals,
                  tslab_globals)
STD_PHP_INI_ENTRY("tslab.memo_size", "64M", PHP_INI_SYSTEM, OnUpdateLongGEZero, memo_size, zend_tslab_globals,
                  tslab_globals)
STD_PHP_INI_BOOLEAN("tslab.apcu_compat", "0", PHP_INI_SYSTEM, OnUpdateBool, apcu_compat, zend_tslab_globals,
                    tslab_globals)
PHP_INI_END()

static void free_link(zval *link) {
        pefree(Z_PTR_P(link), true);
}

static PHP_GINIT_FUNCTION(tslab) {
#if defined(ZTS) && defined(COMPILE_DL_TSLAB)
        ZEND_TSRMLS_CACHE_UPDATE();
#endif
        memset(tslab_globals, 0, sizeof(*tslab_globals));
        zend_hash_init(&tslab_globals->pools, 4, NULL, php_tslab_pool_free, true);
        zend_hash_init(&tslab_globals->links, 4, NULL, free_link, true);
}

static PHP_GSHUTDOWN_FUNCTION(tslab) {
        zend_hash_destroy(&tslab_globals->pools);
        php_tslab_memo_free_dropped();
        zend_hash_destroy(&tslab_globals->links);
}

static PHP_MINIT_FUNCTION(tslab) {
        REGISTER_INI_ENTRIES();
        php_tslab_classes_init();
        php_tslab_session_init();
        if (TSLAB_G(apcu_compat))
                php_tslab_apcu_init();
        return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(tslab) {
        UNREGISTER_INI_ENTRIES();
        return SUCCESS;
}

static PHP_RINIT_FUNCTION(tslab) {
#if defined(ZTS) && defined(COMPILE_DL_TSLAB)
        ZEND_TSRMLS_CACHE_UPDATE();
#endif
        /* A program on the command line may run for days; what it opens is looked after at each call. */
        TSLAB_G(long_requests) =
                strcmp(sapi_module.name, "cli") == 0 || strcmp(sapi_module.name, "phpdbg") == 0;
        TSLAB_G(computations) = NULL;
        php_tslab_pools_look();
        return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(tslab) {
        php_tslab_cache_end_request();
        return SUCCESS;
}

/* After the engine has freed all values of the request. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(tslab) {
        php_tslab_memo_end_request();
        php_tslab_engine_leave_to_parent();
        return SUCCESS;
}

static PHP_MINFO_FUNCTION(tslab) {
        struct tslab_stats stats;
        TslabPool *pool;
        char text[64];

        php_info_print_table_start();
        php_info_print_table_row(2, "tslab support", "enabled");
        php_info_print_table_row(2, "extension version", PHP_TSLAB_VERSION);
        php_info_print_table_row(2, "library version", tslab_version());
        php_info_print_table_row(2, "session handler", "tslab");
        php_info_print_table_row(2, "functions of APCu",
                                 TSLAB_G(apcu_compat) ? "yes" : "no (tslab.apcu_compat)");
        php_info_print_table_end();

        /* The one of tslab.pool also where this process has not used it yet. */
        (void) php_tslab_pool_open(php_tslab_pool_of_name(NULL));
        ZEND_HASH_FOREACH_PTR(&TSLAB_G(pools), pool) {
                stats = (struct tslab_stats){ .size = sizeof(stats) };
                php_info_print_table_start();
                php_info_print_table_header(2, "Pool",
                                            ZSTR_LEN(pool->socket) ? ZSTR_VAL(pool->socket) : "(default)");
                if (!pool->pool || tslab_stats(pool->pool, &stats) < 0) {
                        php_info_print_table_row(2, "state", "not open");
                } else {
                        php_info_print_table_row(2, "state", "open");
                        snprintf(text, sizeof(text), ZEND_ULONG_FMT, (zend_ulong) tslab_capacity(pool->pool));
                        php_info_print_table_row(2, "capacity in bytes", text);
                        snprintf(text, sizeof(text), ZEND_ULONG_FMT, (zend_ulong) stats.live_bytes);
                        php_info_print_table_row(2, "bytes in use", text);
                        snprintf(text, sizeof(text), ZEND_ULONG_FMT, (zend_ulong) stats.live_objects);
                        php_info_print_table_row(2, "objects", text);
                        snprintf(text, sizeof(text), ZEND_ULONG_FMT, (zend_ulong) stats.failures);
                        php_info_print_table_row(2, "failures", text);
                }
                php_info_print_table_end();
        }
        ZEND_HASH_FOREACH_END();
        DISPLAY_INI_ENTRIES();
}

static const zend_module_dep dependencies[] = { ZEND_MOD_REQUIRED("session") ZEND_MOD_REQUIRED(
        "json") ZEND_MOD_REQUIRED("pcre") ZEND_MOD_REQUIRED("date") ZEND_MOD_REQUIRED("spl")
                                                        ZEND_MOD_OPTIONAL("apcu") ZEND_MOD_END };

zend_module_entry tslab_module_entry = {
        STANDARD_MODULE_HEADER_EX,
        NULL,
        dependencies,
        "tslab",
        NULL,
        PHP_MINIT(tslab),
        PHP_MSHUTDOWN(tslab),
        PHP_RINIT(tslab),
        PHP_RSHUTDOWN(tslab),
        PHP_MINFO(tslab),
        PHP_TSLAB_VERSION,
        PHP_MODULE_GLOBALS(tslab),
        PHP_GINIT(tslab),
        PHP_GSHUTDOWN(tslab),
        ZEND_MODULE_POST_ZEND_DEACTIVATE_N(tslab),
        STANDARD_MODULE_PROPERTIES_EX,
};

#ifdef COMPILE_DL_TSLAB
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(tslab)
#endif
