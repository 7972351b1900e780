/*
 * Pools and maps that are open in this process.
 *
 * They stay open when a request ends. As a request begins, and on the command line, where a request may take days, once
 * a second, the process checks whether the daemon has another arena. If so, it closes the old arena and opens the new
 * one. As long as there is no daemon, the process goes on with the memory that it has.
 */
#include "php_tslab.h"

#include <errno.h>
#include <unistd.h>

#define LOOK_MS 1000
#define TIMEOUT_MS 1000 /* for an answer of the daemon */
#define TRIES_MAX 100 /* each a millisecond, while another process is at control work */

static void map_close(TslabMap *map) {
        map->near = tslab_near_close(map->near);
        map->map = tslab_map_close(map->map);
}

static void map_free(zval *value) {
        TslabMap *map = Z_PTR_P(value);

        php_tslab_memo_free(map);
        map_close(map);
        zend_string_release_ex(map->name, true);
        pefree(map, true);
}

void php_tslab_pool_free(zval *value) {
        TslabPool *pool = Z_PTR_P(value);

        zend_hash_destroy(&pool->maps);
        tslab_close(pool->pool);
        zend_string_release_ex(pool->socket, true);
        pefree(pool, true);
}

/* Returns the pool of that socket, or name; it need not be open. */
TslabPool *php_tslab_pool_get(zend_string *socket) {
        TslabPool *pool = zend_hash_find_ptr(&TSLAB_G(pools), socket);

        if (pool)
                return pool;
        pool = pecalloc(1, sizeof(*pool), true);
        pool->socket = zend_string_init(ZSTR_VAL(socket), ZSTR_LEN(socket), true);
        zend_hash_init(&pool->maps, 8, NULL, map_free, true);
        zend_hash_add_ptr(&TSLAB_G(pools), pool->socket, pool);
        return pool;
}

/* Closes all maps of the pool, and the pool. */
static void pool_close(TslabPool *pool) {
        TslabMap *map;

        ZEND_HASH_FOREACH_PTR(&pool->maps, map) {
                map_close(map);
        }
        ZEND_HASH_FOREACH_END();
        pool->pool = tslab_close(pool->pool);
}

/* Opens the pool if it is not open, and opens it anew if its daemon has another arena. Tries once a second. */
int php_tslab_pool_open(TslabPool *pool) {
        struct tslab_options options = { .size = sizeof(options), .timeout_ms = TIMEOUT_MS };
        uint64_t now = php_tslab_now_ms();
        struct tslab *fresh;
        int r;

        if (now < pool->next_look_ms)
                return pool->pool ? 0 : pool->error;
        pool->next_look_ms = now + LOOK_MS;
        if (pool->pool && !tslab_stale(pool->pool))
                return 0;

        r = tslab_open(&fresh, ZSTR_LEN(pool->socket) ? ZSTR_VAL(pool->socket) : NULL, &options);
        if (r < 0) {
                pool->error = r;
                if (!pool->pool)
                        return r;
                php_tslab_log_seldom(&pool->next_log_ms, "the new arena of pool", ZSTR_VAL(pool->socket), r);
                return 0;
        }
        pool_close(pool);
        pool->pool = fresh;
        pool->number++;
        return 0;
}

/* Looks after the daemons of all pools that are open, as a request begins. */
void php_tslab_pools_look(void) {
        TslabPool *pool;

        ZEND_HASH_FOREACH_PTR(&TSLAB_G(pools), pool) {
                if (pool->pool)
                        (void) php_tslab_pool_open(pool);
        }
        ZEND_HASH_FOREACH_END();
}

/* Returns the map of that name; it need not be open. `options` count if this creates it. */
TslabMap *php_tslab_map_get(TslabPool *pool, zend_string *name, const struct tslab_map_options *options) {
        TslabMap *map = zend_hash_find_ptr(&pool->maps, name);

        if (map)
                return map;
        map = pecalloc(1, sizeof(*map), true);
        map->pool = pool;
        map->name = zend_string_init(ZSTR_VAL(name), ZSTR_LEN(name), true);
        map->options = *options;
        zend_hash_add_ptr(&pool->maps, map->name, map);
        return map;
}

/* Returns the map of that near cache; it need not be open. */
TslabMap *php_tslab_near_get(TslabPool *pool, zend_string *name, bool keeps_last) {
        const struct tslab_map_options options = { .size = sizeof(options) };
        TslabMap *map = php_tslab_map_get(pool, name, &options);

        if (!map->is_near || (keeps_last && !map->keeps_last))
                map_close(map);
        map->is_near = true;
        map->keeps_last |= keeps_last;
        return map;
}

static int near_open(TslabMap *map) {
        int r;

        r = tslab_near_open(&map->near, map->pool->pool, ZSTR_VAL(map->name), NULL);
        if (r == 0 && map->keeps_last)
                r = tslab_near_keep_last(map->near);
        if (r < 0)
                map->near = tslab_near_close(map->near);
        return r;
}

/* Opens the map if it is not open, and its pool; see php_tslab_pool_open(). */
int php_tslab_map_open(TslabMap *map) {
        int r;

        r = php_tslab_pool_open(map->pool);
        if (r < 0 || map->map)
                return r;
        if (map->is_near && !map->near) {
                r = near_open(map);
                if (r < 0)
                        return r;
        }
        return tslab_map_open(&map->map, map->pool->pool, ZSTR_VAL(map->name), &map->options);
}

/* Opens the epoch after the current one if that was closed, as by an operator. */
static int leave_closed_epoch(struct tslab *pool) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        uint32_t current;
        int r;

        for (int i = 0; i < TRIES_MAX; i++) {
                r = tslab_epoch_current(pool, &current);
                if (r < 0)
                        return r;
                r = tslab_epoch_info(pool, current & 0xff, &info);
                if (r < 0 || info.epoch != current || info.state == TSLAB_EPOCH_OPEN)
                        return r < 0 ? r : 0;
                r = tslab_epoch_advance_from(pool, current, NULL);
                if (r != -EBUSY)
                        return r < 0 && r != -EAGAIN ? r : 0;
                usleep(1000);
        }
        return -EBUSY;
}

/*
 * After a call failed with `error`: returns 0 if the cause could be removed, so that the call is to be made again, or
 * the error of the call.
 */
int php_tslab_map_again(TslabMap *map, int error) {
        switch (error) {
        case -EIDRM: /* the index was revoked, or the pool was closed for another arena */
                map_close(map);
                return php_tslab_map_open(map) < 0 ? error : 0;
        case -ESHUTDOWN:
                return leave_closed_epoch(map->pool->pool) < 0 ? error : 0;
        default:
                return error;
        }
}
