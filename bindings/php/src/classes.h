#pragma once
/*
 * Objects of the classes, for the files of their methods.
 */
#include "php_tslab.h"

/* An object of any class but Exception. */
typedef struct Object {
        TslabPool *pool; /* Pool */
        TslabMap *map; /* the others */
        uint64_t ttl_ms; /* Cache */
        uint32_t burst; /* Limiter */
        double per_second;
        zend_string *key; /* Lock */
        tslab_handle claim;
        pid_t claimant; /* a child that is forked meanwhile does not end it */
        uint32_t limit_ms; /* time limit of its claims; 0: the library's */
        zend_object std;
} Object;

extern zend_class_entry *php_tslab_ce_pool, *php_tslab_ce_map, *php_tslab_ce_cache, *php_tslab_ce_limiter,
        *php_tslab_ce_lock;

static inline Object *object_of(zend_object *object) {
        return (Object *) ((char *) object - offsetof(Object, std));
}

#define THIS() object_of(Z_OBJ_P(ZEND_THIS))

/* The map of this object, as `map`; throws for an object whose constructor did not run. */
#define MAP_OR_RETURN(map)                                                                                   \
        TslabMap *map = php_tslab_map_of_object(THIS());                                                     \
        if (UNEXPECTED(!map))                                                                                \
                RETURN_THROWS();

TslabMap *php_tslab_map_of_object(Object *object);
int php_tslab_read_limit(double seconds, bool is_null, uint32_t fallback_ms, uint32_t argument,
                         uint32_t *ret_ms);
int php_tslab_read_ttl(double seconds, bool is_null, uint32_t argument, uint64_t *ret_ms);
TslabPool *php_tslab_pool_of_name(zend_string *socket);
int php_tslab_read_options(HashTable *options, uint32_t argument, struct tslab_map_options *ret);
int php_tslab_cache_construct(Object *object, TslabPool *pool, zend_string *name, double ttl,
                              bool ttl_is_null, HashTable *options_array);
bool php_tslab_cache_failed(TslabMap *map, const char *text, int r);
int php_tslab_take_tokens(TslabMap *map, zend_string *key, double per_second, zend_long burst, zend_long cost,
                          uint64_t *ret_ms);
int php_tslab_read_cache_ttl(zval *ttl, uint64_t fallback_ms, uint32_t argument, uint64_t *ret_ms,
                             bool *ret_is_over);
int php_tslab_cache_store(TslabMap *map, zend_string *key, zval *value, uint64_t ttl_ms, bool is_over);
