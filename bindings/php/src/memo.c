/*
 * Arrays that were unserialized before: this process keeps copies of large ones, beyond the end of a request.
 *
 * A copy is good while the entry has its version. So to fetch an array that nobody changed is to look up the version,
 * and to hand out an immutable array, as opcache has them: nothing is parsed, and PHP copies the array when somebody
 * writes to it. A copy is made when a version is fetched for the second time, so an array that changes between two
 * fetches costs only a note of its version.
 *
 * Only arrays of arrays, strings and scalars have copies. Each is one block of memory. If its version is over, the
 * request may still use it, so the block is freed after the request. All blocks and notes together take tslab.memo_size
 * bytes at most. Once they do, the request makes no new ones, and frees all of them when it ends. A worker on the
 * command line, whose request does not end, makes no new copies from then on.
 */
#include "php_tslab.h"

#include <string.h>

#define SMALLEST 1024 /* bytes of a value below which unserializing is cheap enough */
#define ALIGNED(size) ZEND_MM_ALIGNED_SIZE_EX(size, 8)

typedef struct Copy {
        tslab_handle version;
        uint64_t number; /* pool->number when it was fetched */
        zval value; /* IS_UNDEF: only the version was noted */
        size_t size; /* the block, with all that goes with it */
        struct Copy *next; /* in the list of dropped copies */
} Copy;

#if PHP_VERSION_ID >= 80200
#define USED_SIZE(ht) (HT_IS_PACKED(ht) ? HT_PACKED_USED_SIZE(ht) : HT_USED_SIZE(ht))
#else
#define USED_SIZE(ht) HT_USED_SIZE(ht)
#endif

static bool measure_array(zend_array *array, size_t *size);

static bool measure_value(zval *value, size_t *size) {
        switch (Z_TYPE_P(value)) {
        case IS_NULL:
        case IS_FALSE:
        case IS_TRUE:
        case IS_LONG:
        case IS_DOUBLE:
                return true;
        case IS_STRING:
                if (Z_STRLEN_P(value) > 1)
                        *size += ALIGNED(_ZSTR_STRUCT_SIZE(Z_STRLEN_P(value)));
                return true;
        case IS_ARRAY:
                return measure_array(Z_ARRVAL_P(value), size);
        default:
                return false;
        }
}

/* Adds the memory that a copy takes. Returns whether there can be one. */
static bool measure_array(zend_array *array, size_t *size) {
        zend_string *key;
        zval *value;

        if (zend_hash_num_elements(array) == 0)
                return true;
        *size += ALIGNED(sizeof(zend_array)) + ALIGNED(USED_SIZE(array));
        ZEND_HASH_FOREACH_STR_KEY_VAL(array, key, value) {
                if (key && ZSTR_LEN(key) > 1)
                        *size += ALIGNED(_ZSTR_STRUCT_SIZE(ZSTR_LEN(key)));
                if (!measure_value(value, size))
                        return false;
        }
        ZEND_HASH_FOREACH_END();
        return true;
}

static void *take(char **block, size_t size) {
        char *at = *block;

        *block += ALIGNED(size);
        return at;
}

/* Strings of up to one byte are the engine's own. All others look interned: nobody counts references to them. */
static zend_string *copy_string(zend_string *from, char **block) {
        zend_string *to;

        if (ZSTR_LEN(from) == 0)
                return ZSTR_EMPTY_ALLOC();
        if (ZSTR_LEN(from) == 1)
                return ZSTR_CHAR((zend_uchar) ZSTR_VAL(from)[0]);
        to = take(block, _ZSTR_STRUCT_SIZE(ZSTR_LEN(from)));
        GC_SET_REFCOUNT(to, 2);
        GC_TYPE_INFO(to) = GC_STRING | ((IS_STR_INTERNED | IS_STR_PERSISTENT) << GC_FLAGS_SHIFT);
        ZSTR_LEN(to) = ZSTR_LEN(from);
        memcpy(ZSTR_VAL(to), ZSTR_VAL(from), ZSTR_LEN(from) + 1);
        ZSTR_H(to) = ZSTR_HASH(from);
        return to;
}

static void copy_array(zval *to, zend_array *from, char **block);

static void copy_value(zval *value, char **block) {
        if (Z_TYPE_P(value) == IS_STRING)
                ZVAL_INTERNED_STR(value, copy_string(Z_STR_P(value), block));
        else if (Z_TYPE_P(value) == IS_ARRAY)
                copy_array(value, Z_ARRVAL_P(value), block);
}

static void copy_array(zval *to, zend_array *from, char **block) {
        zend_array *array;

        if (zend_hash_num_elements(from) == 0) {
                ZVAL_EMPTY_ARRAY(to);
                return;
        }
        array = take(block, sizeof(*array));
        memcpy(array, from, sizeof(*array));
        GC_SET_REFCOUNT(array, 2);
        GC_TYPE_INFO(array) =
                GC_ARRAY | ((IS_ARRAY_IMMUTABLE | GC_NOT_COLLECTABLE | GC_PERSISTENT) << GC_FLAGS_SHIFT);
        array->u.flags &= ~(uint32_t) 0xff00; /* no iterators */
        array->pDestructor = NULL;
        array->nInternalPointer = 0;
        HT_SET_DATA_ADDR(array,
                         memcpy(take(block, USED_SIZE(from)), HT_GET_DATA_ADDR(from), USED_SIZE(from)));
#if PHP_VERSION_ID >= 80200
        if (HT_IS_PACKED(array)) {
                for (uint32_t i = 0; i < array->nNumUsed; i++)
                        copy_value(&array->arPacked[i], block);
        } else
#endif
                for (uint32_t i = 0; i < array->nNumUsed; i++) {
                        if (Z_TYPE(array->arData[i].val) == IS_UNDEF)
                                continue;
                        if (array->arData[i].key)
                                array->arData[i].key = copy_string(array->arData[i].key, block);
                        copy_value(&array->arData[i].val, block);
                }
        /* An array in place: the zval counts no references. */
        Z_ARR_P(to) = array;
        Z_TYPE_INFO_P(to) = IS_ARRAY;
}

/* Frees notes at once, and copies when the request ends. */
static void copy_drop(Copy *copy) {
        if (Z_ISUNDEF(copy->value)) {
                TSLAB_G(memo_used) -= copy->size;
                free(copy);
                return;
        }
        copy->next = TSLAB_G(memo_dropped);
        TSLAB_G(memo_dropped) = copy;
}

static void on_copy_gone(zval *value) {
        copy_drop(Z_PTR_P(value));
}

static Copy *copy_add(TslabMap *map, zend_string *key, tslab_handle version, size_t size) {
        zend_string *name;
        Copy *copy;

        size += sizeof(*copy) + sizeof(Bucket) + _ZSTR_STRUCT_SIZE(ZSTR_LEN(key));
        if (TSLAB_G(memo_used) + size > (size_t) TSLAB_G(memo_size))
                return NULL;
        copy = malloc(size);
        if (!copy)
                return NULL;
        *copy = (Copy){ .version = version, .number = map->pool->number, .size = size };
        ZVAL_UNDEF(&copy->value);
        TSLAB_G(memo_used) += size;

        if (!map->memo) {
                map->memo = pemalloc(sizeof(*map->memo), true);
                zend_hash_init(map->memo, 8, NULL, on_copy_gone, true);
        }
        name = zend_string_init(ZSTR_VAL(key), ZSTR_LEN(key), true);
        zend_hash_update_ptr(map->memo, name, copy);
        zend_string_release_ex(name, true);
        return copy;
}

/* Tells whether a look-up of the version alone may be enough. */
bool php_tslab_memo_has(TslabMap *map, zend_string *key) {
        Copy *copy = map->memo ? zend_hash_find_ptr(map->memo, key) : NULL;

        return copy && !Z_ISUNDEF(copy->value);
}

/* Hands out the array of that version; false if there is none. */
bool php_tslab_memo_get(TslabMap *map, zend_string *key, tslab_handle version, zval *ret) {
        Copy *copy = map->memo ? zend_hash_find_ptr(map->memo, key) : NULL;

        if (!copy || Z_ISUNDEF(copy->value))
                return false;
        if (copy->version != version || copy->number != map->pool->number) {
                zend_hash_del(map->memo, key);
                return false;
        }
        ZVAL_COPY_VALUE(ret, &copy->value);
        return true;
}

/*
 * Notes a version that was unserialized from so many bytes; keeps a copy if it was noted before. Then *value is that
 * copy.
 */
void php_tslab_memo_put(TslabMap *map, zend_string *key, tslab_handle version, size_t n_bytes, zval *value) {
        size_t size = 0;
        Copy *copy;
        char *block;
        zval array;

        if (n_bytes < SMALLEST || Z_TYPE_P(value) != IS_ARRAY || version == 0)
                return;
        copy = map->memo ? zend_hash_find_ptr(map->memo, key) : NULL;
        if (!copy || copy->version != version || copy->number != map->pool->number) {
                (void) copy_add(map, key, version, 0);
                return;
        }
        if (!measure_value(value, &size))
                return;
        copy = copy_add(map, key, version, size);
        if (!copy)
                return;
        block = (char *) (copy + 1);
        copy_array(&array, Z_ARRVAL_P(value), &block);
        copy->value = array;
        zval_ptr_dtor(value);
        ZVAL_COPY_VALUE(value, &array);
}

/* When nothing refers to copies any more: after the request, and when the thread ends, whose maps drop theirs then. */
void php_tslab_memo_free_dropped(void) {
        for (Copy *copy; (copy = TSLAB_G(memo_dropped));) {
                TSLAB_G(memo_dropped) = copy->next;
                TSLAB_G(memo_used) -= copy->size;
                free(copy);
        }
}

void php_tslab_memo_end_request(void) {
        TslabPool *pool;
        TslabMap *map;

        if (TSLAB_G(memo_used) > (size_t) TSLAB_G(memo_size) / 4 * 3) {
                ZEND_HASH_FOREACH_PTR(&TSLAB_G(pools), pool) {
                        ZEND_HASH_FOREACH_PTR(&pool->maps, map) {
                                if (map->memo)
                                        zend_hash_clean(map->memo);
                        }
                        ZEND_HASH_FOREACH_END();
                }
                ZEND_HASH_FOREACH_END();
        }
        php_tslab_memo_free_dropped();
}

void php_tslab_memo_free(TslabMap *map) {
        if (!map->memo)
                return;
        zend_hash_destroy(map->memo);
        pefree(map->memo, true);
}
