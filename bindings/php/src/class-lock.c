/*
 * Tslab\Limiter and Tslab\Lock.
 */
#include "classes.h"

#include <errno.h>

#include <math.h>

#include <zend_exceptions.h>

#define LIMIT_MS 30000 /* time limit of a claim that names none */

ZEND_METHOD(Tslab_Limiter, __construct) {
        struct tslab_map_options options = { .size = sizeof(options) };
        zend_string *name;
        double per_second;
        zend_long burst;
        Object *object = THIS();
        zval *pool;

        ZEND_PARSE_PARAMETERS_START(4, 4)
        Z_PARAM_OBJECT_OF_CLASS_OR_NULL(pool, php_tslab_ce_pool)
        Z_PARAM_PATH_STR(name)
        Z_PARAM_DOUBLE(per_second)
        Z_PARAM_LONG(burst)
        ZEND_PARSE_PARAMETERS_END();

        if (!(per_second > 0 && per_second <= 1e9)) {
                zend_argument_value_error(3, "must be greater than 0, and 1e9 at most");
                RETURN_THROWS();
        }
        if (burst < 1 || burst > UINT32_MAX) {
                zend_argument_value_error(4, "must be from 1 to 4294967295");
                RETURN_THROWS();
        }
        object->map = php_tslab_map_get(pool ? object_of(Z_OBJ_P(pool))->pool : php_tslab_pool_of_name(NULL),
                                        name, &options);
        object->per_second = per_second;
        object->burst = (uint32_t) burst;
}

/* Takes tokens of a key: 0, or the seconds until there are enough. A pool that fails limits nobody. */
static double limiter_take(INTERNAL_FUNCTION_PARAMETERS) {
        Object *limiter = THIS();
        uint64_t retry_ms = 0;
        zend_long cost = 1;
        zend_string *key;
        int r;

        ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(cost)
        ZEND_PARSE_PARAMETERS_END_EX(return 0);

        if (!php_tslab_map_of_object(limiter))
                return 0;
        r = php_tslab_take_tokens(limiter->map, key, limiter->per_second, limiter->burst, cost, &retry_ms);
        if (r == -EINVAL)
                zend_argument_value_error(2, "must be from 0 to the burst, and the key a limit");
        else
                (void) php_tslab_cache_failed(limiter->map, "a limit could not be counted: map", r);
        return r == 1 ? (double) MAX(retry_ms, 1) / 1000 : 0;
}

ZEND_METHOD(Tslab_Limiter, take) {
        RETVAL_DOUBLE(limiter_take(INTERNAL_FUNCTION_PARAM_PASSTHRU));
}

ZEND_METHOD(Tslab_Limiter, allow) {
        RETVAL_BOOL(limiter_take(INTERNAL_FUNCTION_PARAM_PASSTHRU) == 0);
}

ZEND_METHOD(Tslab_Lock, __construct) {
        zend_throw_error(NULL, "Use Tslab\\Map::lock()");
}

/* A forked child has a copy of the object, not the lock. */
static Object *lock_of_process(Object *lock) {
        if (lock->claim && !php_tslab_is_own(lock->claimant))
                lock->claim = 0;
        return lock;
}

ZEND_METHOD(Tslab_Lock, acquire) {
        double timeout = ZEND_INFINITY;
        Object *lock = lock_of_process(THIS());
        int r;

        ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE(timeout)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (lock->claim) {
                php_tslab_throw(-EDEADLK, "a lock is held by this object already: key", ZSTR_VAL(lock->key));
                RETURN_THROWS();
        }
        r = php_tslab_lock_acquire(map, lock->key, timeout, lock->limit_ms, TSLAB_SIGNALS_NOW, &lock->claim);
        if (r < 0 && r != -ETIMEDOUT) {
                php_tslab_throw(r, "lock", ZSTR_VAL(lock->key));
                RETURN_THROWS();
        }
        lock->claimant = getpid();
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Lock, extend) {
        bool limit_is_null = true;
        Object *lock = lock_of_process(THIS());
        uint32_t limit_ms;
        double limit = 0;
        int r;

        ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(limit, limit_is_null)
        ZEND_PARSE_PARAMETERS_END();

        MAP_OR_RETURN(map);
        if (php_tslab_read_limit(limit, limit_is_null, lock->limit_ms, 1, &limit_ms) < 0)
                RETURN_THROWS();
        r = lock->claim
                    ? php_tslab_map_extend_claim(map, lock->key, limit_ms ? limit_ms : LIMIT_MS, &lock->claim)
                    : -EAGAIN;
        if (r < 0 && !php_tslab_is_miss(r)) {
                php_tslab_throw(r, "lock", ZSTR_VAL(lock->key));
                RETURN_THROWS();
        }
        RETURN_BOOL(r == 0);
}

ZEND_METHOD(Tslab_Lock, release) {
        Object *lock = lock_of_process(THIS());
        tslab_handle claim = lock->claim;

        ZEND_PARSE_PARAMETERS_NONE();
        lock->claim = 0;
        RETURN_BOOL(claim && php_tslab_map_remove(lock->map, lock->key, claim) == 0);
}
