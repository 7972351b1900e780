/*
 * The classes: how objects of them begin and end. Their methods stand in class-*.c.
 */
#include "classes.h"

#include <errno.h>
#include <string.h>

#include <ext/spl/spl_exceptions.h>
#include <zend_exceptions.h>
#include <zend_interfaces.h>

#include "tslab_arginfo.h"

static zend_object_handlers handlers;
zend_class_entry *php_tslab_ce_pool, *php_tslab_ce_map, *php_tslab_ce_cache, *php_tslab_ce_limiter,
        *php_tslab_ce_lock;

TslabMap *php_tslab_map_of(zend_object *object) {
        return object_of(object)->map;
}

static zend_object *object_new(zend_class_entry *ce) {
        Object *object = zend_object_alloc(sizeof(*object), ce);

        zend_object_std_init(&object->std, ce);
        object_properties_init(&object->std, ce);
        object->std.handlers = &handlers;
        return &object->std;
}

static void object_free(zend_object *std) {
        Object *object = object_of(std);

        if (object->claim && php_tslab_is_own(object->claimant))
                (void) php_tslab_map_remove(object->map, object->key, object->claim);
        if (object->key)
                zend_string_release(object->key);
        zend_object_std_dtor(std);
}

/* Throws, and returns NULL, for an object whose constructor did not run. */
TslabMap *php_tslab_map_of_object(Object *object) {
        if (EXPECTED(object->map))
                return object->map;
        zend_throw_error(NULL, "The object was not constructed");
        return NULL;
}

/* Reads a lifetime of seconds; null is TSLAB_MAP_TTL_DEFAULT. */
int php_tslab_read_ttl(double seconds, bool is_null, uint32_t argument, uint64_t *ret_ms) {
        *ret_ms = TSLAB_MAP_TTL_DEFAULT;
        if (is_null || php_tslab_ttl_ms(seconds, ret_ms) == 0)
                return 0;
        zend_argument_value_error(argument, "must be greater than 0");
        return -EINVAL;
}

/* Reads how long a claim stands; INF is as long as there can be. */
int php_tslab_read_limit(double seconds, bool is_null, uint32_t fallback_ms, uint32_t argument,
                         uint32_t *ret_ms) {
        uint64_t ms;

        *ret_ms = fallback_ms;
        if (is_null)
                return 0;
        if (php_tslab_ttl_ms(MIN(seconds, 4e6), &ms) == 0) {
                *ret_ms = (uint32_t) ms;
                return 0;
        }
        zend_argument_value_error(argument, "must be greater than 0");
        return -EINVAL;
}

static zend_class_entry *class_init(zend_class_entry *ce) {
        ce->create_object = object_new;
        return ce;
}

void php_tslab_classes_init(void) {
        memcpy(&handlers, zend_get_std_object_handlers(), sizeof(handlers));
        handlers.offset = offsetof(Object, std);
        handlers.free_obj = object_free;
        handlers.clone_obj = NULL;

        php_tslab_ce_exception = register_class_Tslab_Exception(spl_ce_RuntimeException);
        php_tslab_ce_pool = class_init(register_class_Tslab_Pool());
        php_tslab_ce_map = class_init(register_class_Tslab_Map(zend_ce_countable, zend_ce_aggregate));
        php_tslab_ce_map->get_iterator = php_tslab_iterator_new;
        php_tslab_ce_cache = class_init(register_class_Tslab_Cache());
        php_tslab_ce_limiter = class_init(register_class_Tslab_Limiter());
        php_tslab_ce_lock = class_init(register_class_Tslab_Lock());
}
