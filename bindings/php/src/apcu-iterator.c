/*
 * APCUIterator: over keys of a list, or those that match a pattern.
 */
#include "apcu.h"

#include <errno.h>
#include <string.h>

#include <ext/pcre/php_pcre.h>
#include <zend_exceptions.h>
#include <zend_interfaces.h>

typedef struct ApcuIterator {
        bool is_constructed;
        uint64_t format;
        pcre_cache_entry *pattern; /* NULL: all keys */
        zval keys; /* an array, or IS_UNDEF */
        HashPosition at; /* in `keys` */
        struct tslab_map_cursor cursor;
        zend_string *key; /* NULL: at the end */
        zval entry;
        bool is_begun;
        zend_object std;
} ApcuIterator;

static zend_object_handlers iterator_handlers;
static zend_class_entry *ce_iterator;

static ApcuIterator *iterator_of(zval *object) {
        return (ApcuIterator *) ((char *) Z_OBJ_P(object) - offsetof(ApcuIterator, std));
}

static zend_object *iterator_new(zend_class_entry *ce) {
        ApcuIterator *iterator = zend_object_alloc(sizeof(*iterator), ce);

        zend_object_std_init(&iterator->std, ce);
        object_properties_init(&iterator->std, ce);
        iterator->std.handlers = &iterator_handlers;
        return &iterator->std;
}

static void iterator_drop(ApcuIterator *iterator) {
        if (iterator->key)
                zend_string_release(iterator->key);
        iterator->key = NULL;
        zval_ptr_dtor(&iterator->entry);
        ZVAL_UNDEF(&iterator->entry);
}

static void iterator_free(zend_object *object) {
        ApcuIterator *iterator = (ApcuIterator *) ((char *) object - offsetof(ApcuIterator, std));

        iterator_drop(iterator);
        if (iterator->pattern)
                php_pcre_pce_decref(iterator->pattern);
        zval_ptr_dtor(&iterator->keys);
        zend_object_std_dtor(object);
}

static bool does_match(ApcuIterator *iterator, zend_string *key) {
        zval found, parts;
        bool yes;

        if (!iterator->pattern)
                return true;
        ZVAL_LONG(&found, 0);
        ZVAL_UNDEF(&parts);
#if PHP_VERSION_ID >= 80400
        php_pcre_match_impl(iterator->pattern, key, &found, NULL, false, 0, 0);
#else
        php_pcre_match_impl(iterator->pattern, key, &found, NULL, false, false, 0, 0);
#endif
        yes = zval_is_true(&found);
        zval_ptr_dtor(&found);
        return yes;
}

/* Makes the array that current() returns; false if the entry is gone. */
static bool make_entry(ApcuIterator *iterator, zend_string *key) {
        struct tslab_map_info info = { .size = sizeof(info) };
        uint64_t format = iterator->format;
        zval value;

        ZVAL_NULL(&value);
        if (format & ITER_VALUE ? php_tslab_cache_get(php_tslab_apcu_map(), key, 0, &value, &info) < 0
                                : php_tslab_map_describe(php_tslab_apcu_map(), key, &info) < 0)
                return false;
        array_init(&iterator->entry);
        if (format & ITER_TYPE)
                add_assoc_string(&iterator->entry, "type", "user");
        if (format & ITER_KEY)
                add_assoc_str(&iterator->entry, "key", zend_string_copy(key));
        if (format & ITER_VALUE)
                add_assoc_zval(&iterator->entry, "value", &value);
        static const struct {
                uint64_t bit;
                const char *name;
        } times[] = {
                { ITER_NUM_HITS, "num_hits" },   { ITER_MTIME, "mtime" },
                { ITER_CTIME, "creation_time" }, { ITER_DTIME, "deletion_time" },
                { ITER_ATIME, "access_time" },   { ITER_REFCOUNT, "ref_count" },
        };
        for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
                if (format & times[i].bit)
                        add_assoc_long(&iterator->entry, times[i].name, 0);
        if (format & ITER_MEM_SIZE)
                add_assoc_long(&iterator->entry, "mem_size",
                               (zend_long) (32 + ZSTR_LEN(key) + info.value_size));
        if (format & ITER_TTL)
                add_assoc_long(&iterator->entry, "ttl", php_tslab_apcu_ttl_left(&info));
        return true;
}

/* Returns the next key, or NULL. */
static zend_string *next_key(ApcuIterator *iterator) {
        zval *key;

        if (!Z_ISUNDEF(iterator->keys)) {
                key = zend_hash_get_current_data_ex(Z_ARRVAL(iterator->keys), &iterator->at);
                if (!key)
                        return NULL;
                zend_hash_move_forward_ex(Z_ARRVAL(iterator->keys), &iterator->at);
                ZVAL_DEREF(key);
                return zval_get_string(key);
        }
        return php_tslab_map_next_key(php_tslab_apcu_map(), &iterator->cursor, NULL);
}

static void iterator_step(ApcuIterator *iterator) {
        zend_string *key;

        iterator_drop(iterator);
        while ((key = next_key(iterator))) {
                if ((!Z_ISUNDEF(iterator->keys) || does_match(iterator, key)) && make_entry(iterator, key)) {
                        iterator->key = key;
                        return;
                }
                zend_string_release(key);
        }
}

static void iterator_start(ApcuIterator *iterator) {
        iterator->is_begun = true;
        iterator->at = 0;
        iterator->cursor = (struct tslab_map_cursor){ 0 };
        iterator_step(iterator);
}

static ApcuIterator *iterator_ready(zval *object) {
        ApcuIterator *iterator = iterator_of(object);

        if (!iterator->is_constructed) {
                zend_throw_error(NULL, "Trying to use uninitialized APCUIterator");
                return NULL;
        }
        if (!iterator->is_begun)
                iterator_start(iterator);
        return iterator;
}

#define READY_OR_RETURN(iterator)                                                                            \
        ZEND_PARSE_PARAMETERS_NONE();                                                                        \
        ApcuIterator *iterator = iterator_ready(ZEND_THIS);                                                  \
        if (!iterator)                                                                                       \
                RETURN_THROWS();

ZEND_METHOD(APCUIterator, __construct) {
        ApcuIterator *iterator = iterator_of(ZEND_THIS);
        zend_long format = (zend_long) UINT32_MAX, chunk_size = 0, list = 1;
        zval *search = NULL;

        ZEND_PARSE_PARAMETERS_START(0, 4)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(search)
        Z_PARAM_LONG(format)
        Z_PARAM_LONG(chunk_size)
        Z_PARAM_LONG(list)
        ZEND_PARSE_PARAMETERS_END();

        if (iterator->is_constructed) {
                zend_throw_error(NULL, "APCUIterator is constructed already");
                RETURN_THROWS();
        }
        if (chunk_size < 0) {
                zend_argument_value_error(3, "must be greater than or equal to 0");
                RETURN_THROWS();
        }
        if (list != 1 && list != 2) {
                zend_argument_value_error(4, "must be APC_LIST_ACTIVE or APC_LIST_DELETED");
                RETURN_THROWS();
        }
        if (search && Z_TYPE_P(search) == IS_STRING && Z_STRLEN_P(search)) {
                iterator->pattern = pcre_get_compiled_regex_cache(Z_STR_P(search));
                if (!iterator->pattern) {
                        zend_throw_error(NULL, "Could not compile regular expression: %s",
                                         Z_STRVAL_P(search));
                        RETURN_THROWS();
                }
                php_pcre_pce_incref(iterator->pattern);
        } else if (search && Z_TYPE_P(search) == IS_ARRAY) {
                ZVAL_COPY(&iterator->keys, search);
        } else if (search && Z_TYPE_P(search) != IS_NULL && Z_TYPE_P(search) != IS_STRING) {
                zend_argument_type_error(1, "must be a string, an array, or null");
                RETURN_THROWS();
        }
        if (list == 2) /* nothing is kept that was deleted */
                array_init(&iterator->keys);
        iterator->format = (uint64_t) format;
        iterator->is_constructed = true;
}

ZEND_METHOD(APCUIterator, rewind) {
        READY_OR_RETURN(iterator);
        iterator_start(iterator);
}

ZEND_METHOD(APCUIterator, next) {
        READY_OR_RETURN(iterator);
        iterator_step(iterator);
}

ZEND_METHOD(APCUIterator, valid) {
        READY_OR_RETURN(iterator);
        RETURN_BOOL(iterator->key);
}

ZEND_METHOD(APCUIterator, key) {
        READY_OR_RETURN(iterator);
        if (!iterator->key) {
                zend_throw_error(NULL, "Cannot call key() on invalid iterator");
                RETURN_THROWS();
        }
        RETURN_STR_COPY(iterator->key);
}

ZEND_METHOD(APCUIterator, current) {
        READY_OR_RETURN(iterator);
        if (!iterator->key) {
                zend_throw_error(NULL, "Cannot call current() on invalid iterator");
                RETURN_THROWS();
        }
        RETURN_COPY(&iterator->entry);
}

/* Counts the entries, and their bytes, from the start; the position stays. */
static void iterator_total(ApcuIterator *iterator, zend_long *ret_count, zend_long *ret_size) {
        struct tslab_map_info info;
        /* Not the object itself: its memory ends before the end of its struct. */
        ApcuIterator walk = { .pattern = iterator->pattern };
        zend_string *key;

        *ret_count = *ret_size = 0;
        ZVAL_COPY_VALUE(&walk.keys, &iterator->keys);
        while ((key = next_key(&walk))) {
                if ((!Z_ISUNDEF(walk.keys) || does_match(&walk, key)) &&
                    php_tslab_map_describe(php_tslab_apcu_map(), key, &info) == 0) {
                        *ret_count += 1;
                        *ret_size += (zend_long) (32 + ZSTR_LEN(key) + info.value_size);
                }
                zend_string_release(key);
        }
}

ZEND_METHOD(APCUIterator, getTotalHits) {
        READY_OR_RETURN(iterator);
        (void) iterator;
        RETURN_LONG(0);
}

ZEND_METHOD(APCUIterator, getTotalSize) {
        zend_long count, size;

        READY_OR_RETURN(iterator);
        iterator_total(iterator, &count, &size);
        RETURN_LONG(size);
}

ZEND_METHOD(APCUIterator, getTotalCount) {
        zend_long count, size;

        READY_OR_RETURN(iterator);
        iterator_total(iterator, &count, &size);
        RETURN_LONG(count);
}

void php_tslab_apcu_iterator_init(zend_class_entry *ce) {
        memcpy(&iterator_handlers, zend_get_std_object_handlers(), sizeof(iterator_handlers));
        iterator_handlers.offset = offsetof(ApcuIterator, std);
        iterator_handlers.free_obj = iterator_free;
        iterator_handlers.clone_obj = NULL;
        ce->create_object = iterator_new;
        ce_iterator = ce;
}

bool php_tslab_apcu_is_iterator(zval *object) {
        return Z_TYPE_P(object) == IS_OBJECT && Z_OBJCE_P(object) == ce_iterator;
}
