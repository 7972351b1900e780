/*
 * Caches of values: what Tslab\Cache and apcu_*() share.
 *
 * A value that cannot be unpacked, as one of a class that a deploy removed, passes for absent: -EBADMSG.
 */
#include "php_tslab.h"

#include <errno.h>
#include <string.h>

#include <zend_exceptions.h>

/*
 * Fetches a value, and describes its entry. `accept` may be TSLAB_MAP_STALE. An exception of an unserializer is
 * cleared: the value counts as absent, and the log says so.
 */
int php_tslab_cache_get(TslabMap *map, zend_string *key, uint32_t accept, zval *ret,
                        struct tslab_map_info *info) {
        zend_string *data;
        struct tslab_map *live;
        size_t size;
        int r;

        *info = (struct tslab_map_info){ .size = sizeof(*info), .accept = accept };
        if (php_tslab_memo_has(map, key) && php_tslab_map_use(map, &live) == 0) {
                ssize_t n = tslab_map_get_with(live, ZSTR_VAL(key), ZSTR_LEN(key), NULL, 0, info);

                if (n == -EMSGSIZE && php_tslab_memo_get(map, key, info->version, ret))
                        return 0;
        }
        r = php_tslab_map_get_value(map, key, &data, info);
        if (UNEXPECTED(r < 0))
                return r;
        size = ZSTR_LEN(data);
        r = php_tslab_value_unpack(data, info->flags, ret);
        if (r == 0 && Z_TYPE_P(ret) == IS_ARRAY)
                php_tslab_memo_put(map, key, info->version, size, ret);
        if (UNEXPECTED(r < 0)) {
                if (EG(exception))
                        zend_clear_exception();
                php_tslab_log_seldom(&map->next_log_ms,
                                     "a value cannot be read here, and passes for absent: map",
                                     ZSTR_VAL(map->name), r);
        }
        return r;
}

int php_tslab_cache_set(TslabMap *map, zend_string *key, zval *value, uint32_t mode, tslab_handle version,
                        uint64_t ttl_ms) {
        const char *data;
        size_t size;
        zend_string *held;
        int r;

        r = php_tslab_value_pack(value, &data, &size, &held);
        if (r < 0)
                return r;
        r = php_tslab_map_put_value(map, key, data, size, mode, version, ttl_ms);
        if (held)
                zend_string_release(held);
        return r;
}

static uint64_t ttl_left_ms(const struct tslab_map_info *info) {
        return MAX(1, info->ttl_left_ms); /* UINT64_MAX is TSLAB_MAP_TTL_NONE */
}

/*
 * Replaces a number that was set, and is no counter, by another. -EINVAL: the value is none. -EAGAIN: begin again, as
 * the value is a counter now, or has changed.
 */
static int change_number(TslabMap *map, zend_string *key,
                         bool (*change)(zval *value, zend_long by, zend_long to), zend_long by, zend_long to,
                         zval *ret) {
        struct tslab_map_info info;
        int r;

        r = php_tslab_cache_get(map, key, 0, ret, &info);
        if (r == -EBADMSG)
                return -EINVAL;
        if (r < 0)
                return r;
        if (info.flags & TSLAB_MAP_COUNTER)
                return -EAGAIN;
        /* The new value would not have the tags. */
        if (info.flags & TSLAB_MAP_TAGGED || !change(ret, by, to)) {
                zval_ptr_dtor(ret);
                return -EINVAL;
        }
        return php_tslab_cache_set(map, key, ret, TSLAB_MAP_REPLACE, info.version, ttl_left_ms(&info));
}

static bool add_number(zval *value, zend_long by, zend_long to) {
        zend_long sum;

        if (Z_TYPE_P(value) == IS_DOUBLE) {
                ZVAL_DOUBLE(value, Z_DVAL_P(value) + (double) by);
                return true;
        }
        if (Z_TYPE_P(value) != IS_LONG || __builtin_add_overflow(Z_LVAL_P(value), by, &sum))
                return false;
        ZVAL_LONG(value, sum);
        return true;
}

/* As APCu: integers alone, modulo 2^64. */
static bool step_number(zval *value, zend_long by, zend_long to) {
        if (Z_TYPE_P(value) != IS_LONG)
                return false;
        ZVAL_LONG(value, (zend_long) ((zend_ulong) Z_LVAL_P(value) + (zend_ulong) by));
        return true;
}

static bool swap_number(zval *value, zend_long by, zend_long to) {
        if (Z_TYPE_P(value) != IS_LONG || Z_LVAL_P(value) != by)
                return false;
        ZVAL_LONG(value, to);
        return true;
}

static int add_by(TslabMap *map, zend_string *key, zend_long delta, zend_long initial, uint64_t ttl_ms,
                  bool (*change)(zval *value, zend_long by, zend_long to), zval *ret) {
        uint32_t mode = change == step_number ? TSLAB_MAP_ADD_WRAP : TSLAB_MAP_ADD;
        zend_long sum;
        int r;

        for (;;) {
                r = php_tslab_map_increment(map, key, delta, initial, mode, ttl_ms, &sum);
                if (r == 0)
                        ZVAL_LONG(ret, sum);
                if (r != -EINVAL)
                        return r;
                r = change_number(map, key, change, delta, 0, ret);
                if (r != -EAGAIN && r != -ENOENT)
                        return r;
        }
}

/* Adds to a number: a counter, or an integer or double that was set. An absent one is `initial`. */
int php_tslab_cache_increment(TslabMap *map, zend_string *key, zend_long delta, zend_long initial,
                              uint64_t ttl_ms, zval *ret) {
        return add_by(map, key, delta, initial, ttl_ms, add_number, ret);
}

/* Adds as apcu_inc() does. */
int php_tslab_cache_step(TslabMap *map, zend_string *key, zend_long step, uint64_t ttl_ms, zval *ret) {
        return add_by(map, key, step, 0, ttl_ms, step_number, ret);
}

/*
 * Replaces an integer as apcu_cas() does. -EINVAL: it is another one. A counter changes in place, by an add whose sum
 * tells whether it was `old` before; if not, as another process added meanwhile, the add is taken back.
 */
int php_tslab_cache_swap(TslabMap *map, zend_string *key, zend_long old, zend_long new) {
        zend_long delta = (zend_long) ((zend_ulong) new - (zend_ulong) old);
        struct tslab_map_info info;
        struct tslab_map *live;
        int64_t sum;
        zval value;
        int r;

        for (;;) {
                r = change_number(map, key, swap_number, old, new, &value);
                if (r != -EAGAIN)
                        return r;
                r = php_tslab_cache_get(map, key, 0, &value, &info);
                if (r < 0)
                        return r;
                if (!(info.flags & TSLAB_MAP_COUNTER)) {
                        zval_ptr_dtor(&value);
                        continue;
                }
                if (Z_LVAL(value) != old)
                        return -EINVAL;
                r = php_tslab_map_use(map, &live);
                if (r == 0)
                        r = tslab_map_add_at(live, info.version, delta, &sum);
                if (r == 0 && sum != new) {
                        (void) tslab_map_add_at(live, info.version, (int64_t) (0 - (uint64_t) delta), NULL);
                        return -EINVAL;
                }
                if (r != -ESTALE)
                        return r;
        }
}

/* Calls the function with the key, or without arguments. FAILURE: it threw. */
static zend_result compute(zend_fcall_info *call, zend_fcall_info_cache *cache, zval *argument, zval *ret) {
        call->retval = ret;
        call->params = argument;
        call->param_count = argument ? 1 : 0;
        ZVAL_UNDEF(ret);
        if (zend_call_function(call, cache) == FAILURE || EG(exception) || Z_ISUNDEF_P(ret)) {
                zval_ptr_dtor(ret);
                ZVAL_NULL(ret);
                return FAILURE;
        }
        if (Z_ISREF_P(ret))
                zend_unwrap_reference(ret);
        return SUCCESS;
}

/*
 * The computations that this thread is in, so that one that asks for its own key is told at once. Those of fibers end
 * in any order.
 */
typedef struct Computation {
        TslabMap *map;
        zend_string *key;
        tslab_handle claim;
        pid_t claimant; /* a child that is forked meanwhile waits for it as others do */
        struct Computation *next;
} Computation;

static bool is_computing(const TslabMap *map, zend_string *key) {
        for (const Computation *c = TSLAB_G(computations); c; c = c->next)
                if (c->map == map && zend_string_equals(c->key, key) && php_tslab_is_own(c->claimant))
                        return true;
        return false;
}

static Computation *computation_begin(TslabMap *map, zend_string *key, tslab_handle claim) {
        Computation *computation = emalloc(sizeof(*computation));

        *computation = (Computation){ map, zend_string_copy(key), claim, getpid(), TSLAB_G(computations) };
        TSLAB_G(computations) = computation;
        return computation;
}

/* Returns whether the claim is this process's to end: one that was forked meanwhile leaves it to its parent. */
static bool computation_end(Computation *computation) {
        Computation **at = (Computation **) &TSLAB_G(computations);
        bool is_own = php_tslab_is_own(computation->claimant);

        while (*at != computation)
                at = &(*at)->next;
        *at = computation->next;
        zend_string_release(computation->key);
        efree(computation);
        return is_own;
}

/* At the end of a request: a fatal error leaves other fibers where they are, whose claims must not stand any longer. */
void php_tslab_cache_end_request(void) {
        for (Computation *c; (c = TSLAB_G(computations));) {
                zend_string *key = zend_string_copy(c->key);
                tslab_handle claim = c->claim;
                TslabMap *map = c->map;

                if (computation_end(c))
                        (void) php_tslab_map_remove(map, key, claim);
                zend_string_release(key);
        }
}

static zend_result compute_claimed(TslabMap *map, zend_string *key, tslab_handle claim, zend_fcall_info *call,
                                   zend_fcall_info_cache *cache, zval *argument, uint64_t ttl_ms, zval *ret) {
        Computation *computation = computation_begin(map, key, claim);
        zend_result result = FAILURE;
        int r;

        zend_try {
                result = compute(call, cache, argument, ret);
        }
        zend_catch {
                /* The end of the request's time, say: the claim must not stand until the process ends. */
                if (computation_end(computation))
                        (void) php_tslab_map_remove(map, key, claim);
                zend_bailout();
        }
        zend_end_try();

        if (!computation_end(computation))
                return result; /* the computation forked this process: its parent has the claim, and goes on */
        if (result == FAILURE) {
                (void) php_tslab_map_remove(map, key, claim);
                return FAILURE;
        }
        r = php_tslab_cache_set(map, key, ret, TSLAB_MAP_REPLACE, claim, ttl_ms);
        if (r == 0 || r == -EAGAIN || r == -ENOENT)
                return SUCCESS; /* or a value that was put meanwhile is newer, and so is a deletion */
        (void) php_tslab_map_remove(map, key, claim);
        if (EG(exception))
                return FAILURE;
        php_tslab_log_seldom(&map->next_log_ms, "a value was computed, and not kept: map",
                             ZSTR_VAL(map->name), r);
        return SUCCESS;
}

/*
 * Returns a key's value, or computes it: one process at a time; the others wait, for `timeout` seconds at most, and
 * then compute it, too. While one computes, they have the stale value, if the map keeps these.
 */
zend_result php_tslab_cache_compute(TslabMap *map, zend_string *key, zend_fcall_info *call,
                                    zend_fcall_info_cache *cache, zval *argument, uint64_t ttl_ms,
                                    double timeout, zval *ret) {
        uint64_t end = php_tslab_now_ms() + (uint64_t) (MIN(timeout, 1e9) * 1000);
        struct tslab_map_info info;
        tslab_handle claim = 0;
        int r, claimed;

        if (is_computing(map, key)) {
                zend_throw_exception_ex(php_tslab_ce_exception, EDEADLK,
                                        "the computation of key \"%.200s\" asks for that key", ZSTR_VAL(key));
                return FAILURE;
        }
        for (;;) {
                ZVAL_UNDEF(ret);
                r = php_tslab_cache_get(map, key, TSLAB_MAP_STALE, ret, &info);
                if (r == 0 && !(info.flags & TSLAB_MAP_STALE))
                        return SUCCESS;
                claimed = php_tslab_map_get_claim(map, key, 0, &claim);
                if (claimed == 0) {
                        zval_ptr_dtor(ret);
                        return compute_claimed(map, key, claim, call, cache, argument, ttl_ms, ret);
                }
                if (claimed == -EEXIST) {
                        zval_ptr_dtor(ret);
                        if (r == -EBADMSG)
                                (void) php_tslab_map_remove(map, key, info.version);
                        continue;
                }
                if (r == 0)
                        return SUCCESS;
                if (claimed != -EBUSY) {
                        php_tslab_log_seldom(&map->next_log_ms, "values are computed without the map: map",
                                             ZSTR_VAL(map->name), claimed);
                        return compute(call, cache, argument, ret);
                }
                uint64_t now = php_tslab_now_ms();
                r = now < end ? php_tslab_map_wait_claim(map, key, claim, (double) (end - now) / 1000,
                                                         TSLAB_SIGNALS_NOW)
                              : -ETIMEDOUT;
                if (EG(exception))
                        return FAILURE; /* a handler of a signal threw */
                /* -EINTR: the function of PHP meets the end of the request's time */
                if (r == -ETIMEDOUT || r == -EINTR)
                        return compute(call, cache, argument, ret);
        }
}
