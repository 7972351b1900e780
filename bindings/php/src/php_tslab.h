#pragma once
/*
 * The PHP extension. A process (in a threaded PHP: a thread) keeps each pool and each map open from its first use to
 * its end, beyond the end of requests; objects of PHP name these.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <php.h>

#include <tslab.h>
#include <tslab_map.h>
#include <tslab_near.h>

#include <unistd.h>

#define PHP_TSLAB_VERSION "0.1.0"

extern zend_module_entry tslab_module_entry;
#define phpext_tslab_ptr &tslab_module_entry

/* A pool that is open in this process. */
typedef struct TslabPool {
        struct tslab *pool; /* NULL: it could not be opened yet, or again */
        uint64_t number; /* + 1 whenever another arena is opened */
        uint64_t next_look_ms; /* when the daemon is looked after again */
        uint64_t next_log_ms;
        int error; /* why the last attempt to open it failed: negative errno */
        zend_string *socket; /* persistent; empty: by $TSLAB_POOL, or "default" */
        HashTable maps; /* by name: TslabMap */
} TslabPool;

/* A map that is open in this process. */
typedef struct TslabMap {
        struct tslab_map *map;
        struct tslab_near *near; /* NULL: it is no near cache, or not open */
        bool is_near;
        bool keeps_last; /* see tslab_near_keep_last() */
        TslabPool *pool;
        zend_string *name; /* persistent */
        struct tslab_map_options options;
        uint64_t next_log_ms;
        HashTable *memo; /* by key: copies of arrays, see memo.c; NULL: none yet */
} TslabMap;

ZEND_BEGIN_MODULE_GLOBALS(tslab)
char *pool; /* tslab.pool */
char *cache; /* tslab.cache: the map of apcu_*() and of caches without a name */
char *serializer; /* tslab.serializer */
bool apcu_compat; /* tslab.apcu_compat */
zend_long cache_limit; /* tslab.cache_limit */
zend_long memo_size; /* tslab.memo_size */
bool long_requests; /* requests of this SAPI may last for days: look after the daemon inside of them, too */
HashTable pools; /* by socket: TslabPool */
HashTable links; /* by connection: EngineLink, see session/engine.h */
TslabMap *apcu_map; /* where apcu_*() keep values; NULL: not used yet */
size_t memo_used;
void *memo_dropped; /* copies that go when the request ends */
void *computations; /* that this thread is in, see cache.c */
ZEND_END_MODULE_GLOBALS(tslab)

ZEND_EXTERN_MODULE_GLOBALS(tslab)
#define TSLAB_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(tslab, v)
#if defined(ZTS) && defined(COMPILE_DL_TSLAB)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* pool.c */
TslabPool *php_tslab_pool_get(zend_string *socket);
int php_tslab_pool_open(TslabPool *pool);
TslabMap *php_tslab_map_get(TslabPool *pool, zend_string *name, const struct tslab_map_options *options);
TslabMap *php_tslab_near_get(TslabPool *pool, zend_string *name, bool keeps_last);
int php_tslab_map_open(TslabMap *map);
int php_tslab_map_again(TslabMap *map, int error);
void php_tslab_pool_free(zval *pool);
void php_tslab_pools_look(void);

uint64_t php_tslab_now_ms(void);

/*
 * Whether this process noted its number there. A child that was forked since has a copy, and not what its parent holds:
 * claims, locks, connections and sessions.
 */
static inline bool php_tslab_is_own(pid_t pid) {
        return pid == getpid();
}

/*
 * Tells the map to call with. Opens it, and its pool, if that is due. A map that is open is one of the pool's present
 * arena.
 */
static zend_always_inline int php_tslab_map_use(TslabMap *map, struct tslab_map **ret) {
        if (UNEXPECTED(!map->map ||
                       (TSLAB_G(long_requests) && php_tslab_now_ms() >= map->pool->next_look_ms))) {
                int r = php_tslab_map_open(map);

                if (r < 0)
                        return r;
        }
        *ret = map->map;
        return 0;
}

#define PHP_TSLAB_TRIES_MAX 8

/* Calls CALL with `live`, the map to use, until it succeeds or no remedy is left; `r` is its result. */
#define WITH_MAP(map, live, r, CALL)                                                                         \
        do {                                                                                                 \
                for (int tries_ = 0;; tries_++) {                                                            \
                        r = php_tslab_map_use(map, &live);                                                   \
                        if (UNEXPECTED(r < 0))                                                               \
                                break;                                                                       \
                        r = CALL;                                                                            \
                        if (EXPECTED(r >= 0) || tries_ == PHP_TSLAB_TRIES_MAX ||                             \
                            php_tslab_map_again(map, (int) r) < 0)                                           \
                                break;                                                                       \
                }                                                                                            \
        } while (0)

/* map.c */
int php_tslab_ttl_ms(double seconds, uint64_t *ret_ms);
int php_tslab_map_put_value(TslabMap *map, zend_string *key, const char *value, size_t value_size,
                            uint32_t mode, tslab_handle version, uint64_t ttl_ms);
/* As php_tslab_map_put_value(), with tags from php_tslab_map_tag(). */
int php_tslab_map_put_tagged(TslabMap *map, zend_string *key, const char *value, size_t value_size,
                             uint32_t mode, tslab_handle version, uint64_t ttl_ms, const tslab_handle *tags,
                             uint32_t n_tags);
int php_tslab_map_get_value(TslabMap *map, zend_string *key, zend_string **ret, struct tslab_map_info *info);
int php_tslab_map_remove(TslabMap *map, zend_string *key, tslab_handle version);
int php_tslab_map_increment(TslabMap *map, zend_string *key, zend_long delta, zend_long initial,
                            uint32_t mode, uint64_t ttl_ms, zend_long *ret_value);
int php_tslab_map_get_claim(TslabMap *map, zend_string *key, uint32_t limit_ms, tslab_handle *ret_version);
int php_tslab_map_extend_claim(TslabMap *map, zend_string *key, uint32_t limit_ms, tslab_handle *version);
/* When handlers of signals run that come in a wait. */
enum TslabSignals {
        TSLAB_SIGNALS_NOW,
        TSLAB_SIGNALS_LATER, /* after the call of the program */
};
int php_tslab_map_wait_claim(TslabMap *map, zend_string *key, tslab_handle version, double seconds,
                             enum TslabSignals signals);
int php_tslab_map_clear(TslabMap *map);
int php_tslab_map_describe(TslabMap *map, zend_string *key, struct tslab_map_info *ret);
int php_tslab_map_take_value(TslabMap *map, zend_string *key, zend_string **ret,
                             struct tslab_map_info *ret_info);
zend_string *php_tslab_map_next_key(TslabMap *map, struct tslab_map_cursor *cursor,
                                    struct tslab_map_info *ret_info);
int php_tslab_map_prolong(TslabMap *map, zend_string *key, uint64_t ttl_ms);
int php_tslab_map_tag(TslabMap *map, zend_string *tag, tslab_handle *ret);
int php_tslab_map_invalidate(TslabMap *map, zend_string *tag);
int php_tslab_map_take_tokens(TslabMap *map, zend_string *key, double per_second, uint32_t burst,
                              uint32_t cost, uint64_t *ret_retry_ms);
int php_tslab_lock_acquire(TslabMap *map, zend_string *key, double seconds, uint32_t limit_ms,
                           enum TslabSignals signals, tslab_handle *ret_claim);
void php_tslab_statistics_array(zval *ret, const struct tslab_map_statistics *counts);
int php_tslab_options_read(HashTable *from, struct tslab_map_options *ret);

/* value.c */
#define TSLAB_CACHE_VALUE_MAX (16 << 20) /* for a map that a cache makes */
int php_tslab_value_pack(zval *value, const char **ret_data, size_t *ret_size, zend_string **ret_held);
int php_tslab_value_unpack(zend_string *data, uint32_t flags, zval *ret);
bool php_tslab_value_is_serializer(const char *name);

/* memo.c */
bool php_tslab_memo_get(TslabMap *map, zend_string *key, tslab_handle version, zval *ret);
bool php_tslab_memo_has(TslabMap *map, zend_string *key);
void php_tslab_memo_put(TslabMap *map, zend_string *key, tslab_handle version, size_t n_bytes, zval *value);
void php_tslab_memo_free_dropped(void);
void php_tslab_memo_end_request(void);
void php_tslab_memo_free(TslabMap *map);

/* cache.c */
int php_tslab_cache_get(TslabMap *map, zend_string *key, uint32_t accept, zval *ret,
                        struct tslab_map_info *info);
int php_tslab_cache_set(TslabMap *map, zend_string *key, zval *value, uint32_t mode, tslab_handle version,
                        uint64_t ttl_ms);
int php_tslab_cache_step(TslabMap *map, zend_string *key, zend_long step, uint64_t ttl_ms, zval *ret);
int php_tslab_cache_swap(TslabMap *map, zend_string *key, zend_long old, zend_long new);
int php_tslab_cache_increment(TslabMap *map, zend_string *key, zend_long delta, zend_long initial,
                              uint64_t ttl_ms, zval *ret);
zend_result php_tslab_cache_compute(TslabMap *map, zend_string *key, zend_fcall_info *call,
                                    zend_fcall_info_cache *cache, zval *argument, uint64_t ttl_ms,
                                    double timeout, zval *ret);
void php_tslab_cache_end_request(void);

/* error.c */
extern zend_class_entry *php_tslab_ce_exception;
void php_tslab_throw(int error, const char *what, const char *name);
void php_tslab_log_seldom(uint64_t *next_ms, const char *what, const char *name, int error);
bool php_tslab_is_miss(int error);

/* classes.c, iterator.c, session/session.c, apcu.c */
void php_tslab_classes_init(void);
zend_object_iterator *php_tslab_iterator_new(zend_class_entry *ce, zval *object, int by_ref);
TslabMap *php_tslab_map_of(zend_object *object);
void php_tslab_session_init(void);
void php_tslab_apcu_init(void);
