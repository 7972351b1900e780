/*
 * Calls on maps as the classes, caches, sessions and apcu_*() make them: each opens the map if that is due, and is made
 * again if the index was revoked or the current epoch closed.
 */
#include "php_tslab.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SMALL 2048 /* a value up to this size takes one look-up */
#define WAIT_SLICE_MS 200 /* between two looks at the time limit of the request */

#if PHP_VERSION_ID >= 80200
#define IS_SET(flag) zend_atomic_bool_load_ex(&EG(flag))
#define SET(flag, value) zend_atomic_bool_store_ex(&EG(flag), value)
#else
#define IS_SET(flag) EG(flag)
#define SET(flag, value) (EG(flag) = (value))
#endif

/*
 * In the middle of a wait: calls handlers of signals, if they may be called here. Returns -EINTR if the wait is to end,
 * as the time of the request is over, or a handler threw.
 */
static int meet_interrupt(enum TslabSignals signals) {
        if (!IS_SET(vm_interrupt))
                return 0;
        if (signals == TSLAB_SIGNALS_LATER)
                return IS_SET(timed_out) ? -EINTR : 0;
        SET(vm_interrupt, false); /* first, as the time may end right now */
        if (IS_SET(timed_out)) {
                SET(vm_interrupt, true);
                return -EINTR;
        }
        if (zend_interrupt_function)
                zend_interrupt_function(EG(current_execute_data));
        return EG(exception) ? -EINTR : 0;
}

/* Returns 0 with the lifetime, of at least a millisecond, or -EINVAL. INFINITY is no end. */
int php_tslab_ttl_ms(double seconds, uint64_t *ret_ms) {
        double ms = ceil(seconds * 1000);

        if (isnan(ms) || ms < 1)
                return -EINVAL;
        *ret_ms = isinf(ms)                 ? TSLAB_MAP_TTL_NONE
                  : ms >= TSLAB_MAP_TTL_MAX ? TSLAB_MAP_TTL_MAX
                                            : (uint64_t) ms;
        return 0;
}

int php_tslab_map_put_value(TslabMap *map, zend_string *key, const char *value, size_t value_size,
                            uint32_t mode, tslab_handle version, uint64_t ttl_ms) {
        return php_tslab_map_put_tagged(map, key, value, value_size, mode, version, ttl_ms, NULL, 0);
}

int php_tslab_map_put_tagged(TslabMap *map, zend_string *key, const char *value, size_t value_size,
                             uint32_t mode, tslab_handle version, uint64_t ttl_ms, const tslab_handle *tags,
                             uint32_t n_tags) {
        const struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = TSLAB_EPOCH_CURRENT,
                .ttl_ms = ttl_ms,
                .mode = mode,
                .version = version,
                .tags = tags,
                .n_tags = n_tags,
        };
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r,
                 tslab_map_put_with(live, ZSTR_VAL(key), ZSTR_LEN(key), value, value_size, &options));
        return r;
}

/*
 * Returns the value as a string of PHP, and describes its entry. *ret may be an interned string. `info` has its size
 * and `accept` set.
 */
int php_tslab_map_get_value(TslabMap *map, zend_string *key, zend_string **ret, struct tslab_map_info *info) {
        char small[SMALL];
        zend_string *large = NULL;
        struct tslab_map *live;
        ssize_t r;

        WITH_MAP(map, live, r,
                 tslab_map_get_with(live, ZSTR_VAL(key), ZSTR_LEN(key), small, sizeof(small), info));
        if (EXPECTED(r >= 0)) {
                *ret = zend_string_init_fast(small, (size_t) r);
                return 0;
        }
        while (r == -EMSGSIZE) {
                large = large ? zend_string_realloc(large, info->value_size, false)
                              : zend_string_alloc(info->value_size, false);
                WITH_MAP(map, live, r,
                         tslab_map_get_with(live, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(large),
                                            ZSTR_LEN(large), info));
        }
        if (r < 0) {
                if (large)
                        zend_string_efree(large);
                return (int) r;
        }
        if ((size_t) r < ZSTR_LEN(large))
                large = zend_string_truncate(large, (size_t) r, false);
        ZSTR_VAL(large)[r] = 0;
        *ret = large;
        return 0;
}

/* Deletes the key, or, unless `version` is 0, the key with that version. */
int php_tslab_map_remove(TslabMap *map, zend_string *key, tslab_handle version) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r,
                 version ? tslab_map_delete_version(live, ZSTR_VAL(key), ZSTR_LEN(key), version)
                         : tslab_map_delete(live, ZSTR_VAL(key), ZSTR_LEN(key)));
        return r;
}

int php_tslab_map_increment(TslabMap *map, zend_string *key, zend_long delta, zend_long initial,
                            uint32_t mode, uint64_t ttl_ms, zend_long *ret_value) {
        const struct tslab_map_add_options options = {
                .size = sizeof(options), .mode = mode, .ttl_ms = ttl_ms, .initial = initial
        };
        struct tslab_map *live;
        int64_t sum = 0;
        int r;

        WITH_MAP(map, live, r, tslab_map_add_with(live, ZSTR_VAL(key), ZSTR_LEN(key), delta, &options, &sum));
        if (r >= 0)
                *ret_value = sum;
        return r;
}

/* Claims a key for `limit_ms`; 0: for the library's 30 seconds. */
int php_tslab_map_get_claim(TslabMap *map, zend_string *key, uint32_t limit_ms, tslab_handle *ret_version) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r,
                 limit_ms ? tslab_map_claim_for(live, ZSTR_VAL(key), ZSTR_LEN(key), TSLAB_EPOCH_CURRENT,
                                                limit_ms, ret_version)
                          : tslab_map_claim(live, ZSTR_VAL(key), ZSTR_LEN(key), TSLAB_EPOCH_CURRENT,
                                            ret_version));
        return r;
}

/* Lets a claim stand for another `limit_ms`; *version changes. */
int php_tslab_map_extend_claim(TslabMap *map, zend_string *key, uint32_t limit_ms, tslab_handle *version) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r, tslab_map_claim_extend(live, ZSTR_VAL(key), ZSTR_LEN(key), limit_ms, version));
        return r;
}

/*
 * Waits for a claim as tslab_map_wait() does, for `seconds` at most, in slices, so that the time limit of the request
 * ends it, and handlers of signals run meanwhile. -EINTR: that limit, or an exception of such a handler.
 */
int php_tslab_map_wait_claim(TslabMap *map, zend_string *key, tslab_handle version, double seconds,
                             enum TslabSignals signals) {
        uint64_t now = php_tslab_now_ms(),
                 end = seconds < 1e9 ? now + (uint64_t) (seconds * 1000) : UINT64_MAX;
        struct tslab_map *live;
        int r;

        for (;;) {
                uint64_t left = now < end ? end - now : 0;

                WITH_MAP(map, live, r,
                         tslab_map_wait(live, ZSTR_VAL(key), ZSTR_LEN(key), version,
                                        (uint32_t) MIN(left, WAIT_SLICE_MS)));
                if (r != -ETIMEDOUT && r != -EINTR)
                        return r;
                r = meet_interrupt(signals);
                if (r < 0)
                        return r;
                now = php_tslab_now_ms();
                if (now >= end)
                        return -ETIMEDOUT;
        }
}

int php_tslab_map_clear(TslabMap *map) {
        struct tslab_map *live;
        ssize_t r;

        WITH_MAP(map, live, r, tslab_map_expire(live, TSLAB_MAP_EPOCH_ALL));
        return r < 0 ? (int) r : 0;
}

static int read_number(zval *value, double max, double scale, uint64_t *ret) {
        double number = zval_get_double(value);

        if (!(number >= 0 && number * scale <= max))
                return -EINVAL;
        *ret = (uint64_t) (number * scale);
        return 0;
}

/* Reads options of maps, named as in Python: ttl and stale in seconds, limit_bytes, value_max, evict ('sieve'). */
int php_tslab_options_read(HashTable *from, struct tslab_map_options *ret) {
        struct tslab_map_options options = { .size = sizeof(options) };
        zend_string *name;
        zval *value;
        int r = 0;

        if (!from) {
                *ret = options;
                return 0;
        }
        ZEND_HASH_FOREACH_STR_KEY_VAL(from, name, value) {
                uint64_t number = 0;

                if (!name)
                        return -EINVAL;
                if (Z_TYPE_P(value) == IS_NULL)
                        continue;
                if (zend_string_equals_literal(name, "ttl")) {
                        r = read_number(value, TSLAB_MAP_TTL_MAX, 1000, &options.ttl_ms);
                } else if (zend_string_equals_literal(name, "stale")) {
                        r = read_number(value, UINT32_MAX - 1, 1000, &number);
                        options.stale_ms = (uint32_t) number;
                } else if (zend_string_equals_literal(name, "limit_bytes")) {
                        r = read_number(value, 1e15, 1, &options.limit_bytes);
                } else if (zend_string_equals_literal(name, "value_max")) {
                        r = read_number(value, UINT32_MAX, 1, &number);
                        options.value_max = (uint32_t) number;
                } else if (zend_string_equals_literal(name, "evict")) {
                        if (Z_TYPE_P(value) != IS_STRING ||
                            !zend_string_equals_literal(Z_STR_P(value), "sieve"))
                                return -EINVAL;
                        options.evict = TSLAB_MAP_EVICT_SIEVE;
                } else {
                        return -EINVAL;
                }
                if (r < 0)
                        return r;
        }
        ZEND_HASH_FOREACH_END();
        *ret = options;
        return 0;
}

/* Describes the entry of a key. */
int php_tslab_map_describe(TslabMap *map, zend_string *key, struct tslab_map_info *ret) {
        struct tslab_map *live;
        ssize_t r;

        *ret = (struct tslab_map_info){ .size = sizeof(*ret) };
        WITH_MAP(map, live, r, tslab_map_get_with(live, ZSTR_VAL(key), ZSTR_LEN(key), NULL, 0, ret));
        return r >= 0 || r == -EMSGSIZE ? 0 : (int) r;
}

/* Deletes the key, and returns its value as php_tslab_map_get_value() does. */
int php_tslab_map_take_value(TslabMap *map, zend_string *key, zend_string **ret,
                             struct tslab_map_info *ret_info) {
        zend_string *value = zend_string_alloc(SMALL, false);
        struct tslab_map *live;
        ssize_t r;

        for (;;) {
                *ret_info = (struct tslab_map_info){ .size = sizeof(*ret_info) };
                WITH_MAP(map, live, r,
                         tslab_map_take(live, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(value), ZSTR_LEN(value),
                                        ret_info));
                if (r != -EMSGSIZE)
                        break;
                zend_string_efree(value);
                value = zend_string_alloc(ret_info->value_size, false);
        }
        if (r < 0) {
                zend_string_efree(value);
                return (int) r;
        }
        value = zend_string_truncate(value, (size_t) r, false);
        ZSTR_VAL(value)[r] = 0;
        *ret = value;
        return 0;
}

/* Gives the entry another lifetime. */
int php_tslab_map_prolong(TslabMap *map, zend_string *key, uint64_t ttl_ms) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r, tslab_map_touch(live, ZSTR_VAL(key), ZSTR_LEN(key), ttl_ms));
        return r;
}

/* The tag as it is now. */
int php_tslab_map_tag(TslabMap *map, zend_string *tag, tslab_handle *ret) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r, tslab_map_tag(live, ZSTR_VAL(tag), ZSTR_LEN(tag), TSLAB_EPOCH_CURRENT, ret));
        return r;
}

/* Makes all entries of a tag absent. */
int php_tslab_map_invalidate(TslabMap *map, zend_string *tag) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r, tslab_map_invalidate(live, ZSTR_VAL(tag), ZSTR_LEN(tag)));
        return r;
}

/* Takes tokens as tslab_map_limit() does. */
int php_tslab_map_take_tokens(TslabMap *map, zend_string *key, double per_second, uint32_t burst,
                              uint32_t cost, uint64_t *ret_retry_ms) {
        struct tslab_map *live;
        int r;

        WITH_MAP(map, live, r,
                 tslab_map_limit(live, ZSTR_VAL(key), ZSTR_LEN(key), per_second, burst, cost, ret_retry_ms));
        return r;
}

/*
 * Claims a key that has no value, and waits up to `seconds` for others' claims of it. -ETIMEDOUT: another one stands.
 */
int php_tslab_lock_acquire(TslabMap *map, zend_string *key, double seconds, uint32_t limit_ms,
                           enum TslabSignals signals, tslab_handle *ret_claim) {
        uint64_t now = php_tslab_now_ms(),
                 end = seconds < 1e9 ? now + (uint64_t) (MAX(seconds, 0) * 1000) : UINT64_MAX;
        tslab_handle claim = 0;
        int r;

        for (;;) {
                r = php_tslab_map_get_claim(map, key, limit_ms, &claim);
                if (r != -EBUSY) {
                        if (r == 0)
                                *ret_claim = claim;
                        return r;
                }
                now = php_tslab_now_ms();
                if (now >= end)
                        return -ETIMEDOUT;
                r = php_tslab_map_wait_claim(
                        map, key, claim, end == UINT64_MAX ? INFINITY : (double) (end - now) / 1000, signals);
                /* A claim of this very thread: it will not go while we wait. */
                if (r == -EINTR || (r == -EDEADLK && end != UINT64_MAX))
                        return -ETIMEDOUT;
                if (r < 0 && r != -ETIMEDOUT)
                        return r;
        }
}

/* The counts of a map as an array of PHP. */
void php_tslab_statistics_array(zval *ret, const struct tslab_map_statistics *counts) {
        array_init(ret);
        add_assoc_long(ret, "entries", (zend_long) counts->entries);
        add_assoc_long(ret, "bytes", (zend_long) counts->bytes);
        add_assoc_long(ret, "hits", (zend_long) counts->hits);
        add_assoc_long(ret, "misses", (zend_long) counts->misses);
        add_assoc_long(ret, "inserts", (zend_long) counts->inserts);
        add_assoc_long(ret, "deletes", (zend_long) counts->deletes);
        add_assoc_long(ret, "expirations", (zend_long) counts->expirations);
        add_assoc_long(ret, "evictions", (zend_long) counts->evictions);
        add_assoc_long(ret, "failures", (zend_long) counts->failures);
}

/*
 * Returns the next key of a walk through the map, and describes its entry unless ret_info is NULL; NULL: there are no
 * more, or the map failed.
 */
zend_string *php_tslab_map_next_key(TslabMap *map, struct tslab_map_cursor *cursor,
                                    struct tslab_map_info *ret_info) {
        struct tslab_map_info info;
        char key[TSLAB_MAP_KEY_MAX];
        struct tslab_map *live;
        int r;

        do {
                info = (struct tslab_map_info){ .size = sizeof(info) };
                r = php_tslab_map_use(map, &live);
                if (r == 0)
                        r = tslab_map_next(live, cursor, key, sizeof(key), &info);
        } while (r == -EUCLEAN);
        if (r <= 0)
                return NULL;
        if (ret_info)
                *ret_info = info;
        return zend_string_init(key, info.key_size, false);
}
