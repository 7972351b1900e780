/*
 * The calls apcu_*_info(): numbers of the map and of its pool.
 */
#include "apcu.h"

#include <errno.h>
#include <string.h>

zend_long php_tslab_apcu_ttl_left(const struct tslab_map_info *info) {
        return info->ttl_left_ms == UINT64_MAX ? 0 : (zend_long) ((info->ttl_left_ms + 999) / 1000);
}

PHP_FUNCTION(apcu_key_info) {
        struct tslab_map_info info;
        zend_string *key;

        ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
        ZEND_PARSE_PARAMETERS_END();

        if (php_tslab_map_describe(php_tslab_apcu_map(), key, &info) < 0)
                return;
        array_init(return_value);
        add_assoc_long(return_value, "hits", 0);
        add_assoc_long(return_value, "access_time", 0);
        add_assoc_long(return_value, "mtime", 0);
        add_assoc_long(return_value, "creation_time", 0);
        add_assoc_long(return_value, "deletion_time", 0);
        add_assoc_long(return_value, "ttl", php_tslab_apcu_ttl_left(&info));
        add_assoc_long(return_value, "refs", 0);
}

static void add_times(zval *entry) {
        add_assoc_long(entry, "num_hits", 0);
        add_assoc_long(entry, "mtime", 0);
        add_assoc_long(entry, "creation_time", 0);
        add_assoc_long(entry, "deletion_time", 0);
        add_assoc_long(entry, "access_time", 0);
        add_assoc_long(entry, "ref_count", 0);
}

/* Adds the entries of the map to `list`, as apcu_cache_info() has them. */
static void list_entries(zval *list) {
        struct tslab_map_cursor cursor = { 0 };
        struct tslab_map_info info;
        zend_string *key;
        zval entry;

        while ((key = php_tslab_map_next_key(php_tslab_apcu_map(), &cursor, &info))) {
                array_init(&entry);
                add_assoc_str(&entry, "info", key);
                add_assoc_long(&entry, "ttl", php_tslab_apcu_ttl_left(&info));
                add_times(&entry);
                add_assoc_long(&entry, "mem_size", (zend_long) (32 + info.key_size + info.value_size));
                add_next_index_zval(list, &entry);
        }
}

static int read_counts(struct tslab_map_statistics *ret) {
        struct tslab_map *live;
        int r = php_tslab_map_use(php_tslab_apcu_map(), &live);

        return r < 0 ? r : tslab_map_statistics(live, ret);
}

PHP_FUNCTION(apcu_cache_info) {
        struct tslab_map_statistics counts = { .size = sizeof(counts) };
        bool limited = false;
        zval list;
        int r;

        ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(limited)
        ZEND_PARSE_PARAMETERS_END();

        r = read_counts(&counts);
        if (r < 0) {
                php_tslab_apcu_failed(r);
                RETURN_FALSE;
        }
        array_init(return_value);
        add_assoc_long(return_value, "num_slots", 0);
        add_assoc_long(return_value, "ttl", 0);
        add_assoc_double(return_value, "num_hits", (double) counts.hits);
        add_assoc_double(return_value, "num_misses", (double) counts.misses);
        add_assoc_double(return_value, "num_inserts", (double) counts.inserts);
        add_assoc_long(return_value, "num_entries", (zend_long) counts.entries);
        add_assoc_double(return_value, "expunges", 0);
        add_assoc_long(return_value, "start_time", 0);
        add_assoc_double(return_value, "mem_size", (double) counts.bytes);
        add_assoc_string(return_value, "memory_type", "tslab");
        if (limited)
                return;
        array_init(&list);
        list_entries(&list);
        add_assoc_zval(return_value, "cache_list", &list);
        array_init(&list);
        add_assoc_zval(return_value, "deleted_list", &list);
        array_init(&list);
        add_assoc_zval(return_value, "slot_distribution", &list);
}

PHP_FUNCTION(apcu_sma_info) {
        struct tslab_map_statistics counts = { .size = sizeof(counts) };
        struct tslab_stats stats = { .size = sizeof(stats) };
        bool limited = false;
        double size, used;
        zval list;
        int r;

        ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(limited)
        ZEND_PARSE_PARAMETERS_END();

        r = read_counts(&counts);
        if (r == 0)
                r = tslab_stats(php_tslab_apcu_map()->pool->pool, &stats);
        if (r < 0) {
                php_tslab_apcu_failed(r);
                RETURN_FALSE;
        }
        size = TSLAB_G(cache_limit) ? (double) TSLAB_G(cache_limit)
                                    : (double) tslab_capacity(php_tslab_apcu_map()->pool->pool);
        used = TSLAB_G(cache_limit) ? (double) counts.bytes : (double) stats.live_bytes;
        array_init(return_value);
        add_assoc_long(return_value, "num_seg", 1);
        add_assoc_double(return_value, "seg_size", size);
        add_assoc_double(return_value, "avail_mem", used < size ? size - used : 0);
        if (limited)
                return;
        array_init(&list);
        add_assoc_zval(return_value, "block_lists", &list);
}
