/*
 * foreach over a Tslab\Map: its keys and values, in no order.
 */
#include "php_tslab.h"

#include <errno.h>

#include <zend_exceptions.h>
#include <zend_interfaces.h>

typedef struct Iterator {
        zend_object_iterator base;
        TslabMap *map;
        zval value;
        zend_string *key; /* NULL: at the end */
        struct tslab_map_cursor cursor;
} Iterator;

static void drop_entry(Iterator *iterator) {
        if (iterator->key)
                zend_string_release(iterator->key);
        iterator->key = NULL;
        zval_ptr_dtor(&iterator->value);
        ZVAL_UNDEF(&iterator->value);
}

static void iterator_free(zend_object_iterator *base) {
        Iterator *iterator = (Iterator *) base;

        drop_entry(iterator);
        zval_ptr_dtor(&base->data);
}

static zend_result iterator_valid(zend_object_iterator *base) {
        return ((Iterator *) base)->key ? SUCCESS : FAILURE;
}

static zval *iterator_value(zend_object_iterator *base) {
        return &((Iterator *) base)->value;
}

static void iterator_key(zend_object_iterator *base, zval *ret) {
        ZVAL_STR_COPY(ret, ((Iterator *) base)->key);
}

/* Goes on to the next entry that is still there when its value is fetched. */
static void iterator_next(zend_object_iterator *base) {
        Iterator *iterator = (Iterator *) base;
        struct tslab_map_info info;
        zend_string *value;

        drop_entry(iterator);
        while ((iterator->key = php_tslab_map_next_key(iterator->map, &iterator->cursor, NULL))) {
                info = (struct tslab_map_info){ .size = sizeof(info) };
                if (php_tslab_map_get_value(iterator->map, iterator->key, &value, &info) == 0) {
                        ZVAL_STR(&iterator->value, value);
                        return;
                }
                drop_entry(iterator);
        }
}

static void iterator_rewind(zend_object_iterator *base) {
        Iterator *iterator = (Iterator *) base;

        iterator->cursor = (struct tslab_map_cursor){ 0 };
        iterator_next(base);
}

static const zend_object_iterator_funcs functions = {
        .dtor = iterator_free,
        .valid = iterator_valid,
        .get_current_data = iterator_value,
        .get_current_key = iterator_key,
        .move_forward = iterator_next,
        .rewind = iterator_rewind,
};

zend_object_iterator *php_tslab_iterator_new(zend_class_entry *ce, zval *object, int by_ref) {
        Iterator *iterator;

        if (by_ref) {
                zend_throw_error(NULL, "An iterator cannot be used with foreach by reference");
                return NULL;
        }
        iterator = emalloc(sizeof(*iterator));
        zend_iterator_init(&iterator->base);
        ZVAL_OBJ_COPY(&iterator->base.data, Z_OBJ_P(object));
        iterator->base.funcs = &functions;
        iterator->map = php_tslab_map_of(Z_OBJ_P(object));
        iterator->key = NULL;
        ZVAL_UNDEF(&iterator->value);
        return &iterator->base;
}
