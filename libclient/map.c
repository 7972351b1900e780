/* The calls on maps: they check a program's arguments and enter the pool; shm/map/map.h does the rest. */
#include "libclient/map.h"

#include <errno.h>
#include <stdlib.h>

#include "libclient/enter.h"
#include "libclient/sampler.h"
#include "shm/arena/root.h"

/* Leaves looked at before a record that threads share is given to the next. */
#define EXPIRE_SLICE 256
#define ALLOC_FIRST 4096 /* the size of a first buffer */

/* False: larger than any key there can be. */
static bool key_init(ShmMapKey *key, const struct tslab_map *map, const void *bytes, size_t size) {
        if (size > shm_map_key_max(&map->pool->arena))
                return false;
        bytes = size > 0 ? bytes : "";
        *key = (ShmMapKey){
                .bytes = bytes,
                .size = (uint32_t) size,
                .hash = shm_hash(&map->pool->arena, bytes, size),
        };
        return true;
}

_public_ size_t tslab_map_size_max(struct tslab_map *map) {
        return shm_map_value_max(&map->trie);
}

/* A reader's miss or short read means nothing in a pool that was closed meanwhile. */
static ssize_t unless_closed(const struct tslab_map *map, ssize_t result) {
        return pool_is_closed(map->pool) ? -EIDRM : result;
}

/* A thread without a record, or with objects that are pending, is not counted. */
static void count_get(const struct tslab_map *map, ssize_t result) {
        ThreadState *thread = pool_thread(map->pool);

        if (!thread || pool_set_busy(map->pool, thread) != 0)
                return;
        if (result >= 0)
                shm_tally_hit(&thread->actor, &map->trie);
        else if (result == -ENOENT)
                shm_tally_miss(&thread->actor, &map->trie);
        pool_clear_busy(thread);
}

static ssize_t map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                       size_t buffer_size, ShmMapView *view) {
        ShmMapKey k;
        ssize_t n;

        if (!key_init(&k, map, key, key_size))
                return -ENOENT;
        n = shm_map_get(&map->trie, &k, buffer, buffer_size, view);
        count_get(map, n);
        return n == -ENOENT ? unless_closed(map, n) : n;
}

_public_ ssize_t tslab_map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                               size_t buffer_size, uint32_t *ret_epoch) {
        ShmMapView view;
        ssize_t n;

        n = map_get(map, key, key_size, buffer, buffer_size, &view);
        if (n >= 0 && ret_epoch)
                *ret_epoch = view.head.epoch;
        return n;
}

_public_ ssize_t tslab_map_get_version(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                                       size_t buffer_size, tslab_handle *ret_version) {
        ShmMapView view;
        ssize_t n;

        n = map_get(map, key, key_size, buffer, buffer_size, &view);
        if (n >= 0)
                *ret_version = view.handle;
        return n;
}

static void tell_value(const ShmMapView *view, struct tslab_map_value *ret) {
        ret->size = view->head.value_size;
        ret->version = view->handle;
        ret->epoch = view->head.epoch;
}

_public_ ssize_t tslab_map_get_part(struct tslab_map *map, const void *key, size_t key_size,
                                    tslab_handle version, size_t offset, void *buffer, size_t buffer_size,
                                    struct tslab_map_value *ret_value) {
        ShmMapView view;
        ShmMapKey k;
        ssize_t n;

        if (!key_init(&k, map, key, key_size))
                return -ENOENT;
        n = shm_map_read(&map->trie, &k, version, offset < UINT32_MAX ? (uint32_t) offset : UINT32_MAX,
                         buffer, buffer_size, &view);
        count_get(map, n);
        if (n >= 0 && ret_value)
                tell_value(&view, ret_value);
        return n == -ENOENT ? unless_closed(map, n) : n;
}

_public_ int tslab_map_get_alloc(struct tslab_map *map, const void *key, size_t key_size, void **ret,
                                 struct tslab_map_value *ret_value) {
        size_t size = ALLOC_FIRST;
        ShmMapView view;
        uint8_t *bytes;
        ssize_t n;

        do {
                bytes = malloc(size + 1);
                if (!bytes)
                        return -ENOMEM;
                n = map_get(map, key, key_size, bytes, size, &view);
                if (n < 0)
                        free(bytes);
                size = n == -EMSGSIZE ? view.head.value_size : size;
        } while (n == -EMSGSIZE);
        if (n < 0)
                return (int) n;
        bytes[n] = 0;
        tell_value(&view, ret_value);
        *ret = bytes;
        return 0;
}

/* Sizes that the core could not even be told. */
static int refuse_large(struct tslab_map *map, size_t key_size, size_t value_size) {
        ThreadState *thread;
        int r;

        r = pool_enter(map->pool, &thread);
        if (r)
                return r;
        r = shm_map_refuse_large(&thread->actor, key_size, value_size);
        pool_leave(map->pool, thread);
        return r;
}

/* Chunks of large values are not sampled. */
static void note_put(struct tslab *pool, uint64_t version, size_t key_size, size_t value_size) {
        size_t size = sizeof(ShmMapLeaf) + key_size + value_size;

        if (size <= shm_arena_size_max(&pool->arena))
                sampler_note(pool, version, size);
}

static int map_put(struct tslab_map *map, const void *key, size_t key_size, ShmMapPut *p, size_t value_size) {
        ThreadState *thread;
        uint64_t version;
        ShmMapKey k;
        int r;

        if (map->pool->is_reader)
                return -EROFS;
        if (value_size > shm_map_value_max(&map->trie) || !key_init(&k, map, key, key_size))
                return refuse_large(map, key_size, value_size);
        p->value_size = (uint32_t) value_size;
        if (value_size == 0)
                p->value = "";

        r = pool_enter(map->pool, &thread);
        if (r)
                return r;
        r = shm_map_put(&thread->actor, &map->trie, &k, p, &version);
        if (r == 0)
                note_put(map->pool, version, key_size, value_size);
        pool_leave(map->pool, thread);
        pool_run_deferred(map->pool);
        return r;
}

_public_ int tslab_map_put(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                           size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_PUT, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

_public_ int tslab_map_insert(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                              size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_INSERT, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

_public_ int tslab_map_update(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                              size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_UPDATE, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

_public_ int tslab_map_replace(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                               const void *value, size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_REPLACE, .expected = version, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

static int remove_key(struct tslab_map *map, const void *key, size_t key_size, uint64_t expected) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        if (map->pool->is_reader)
                return -EROFS;
        if (!key_init(&k, map, key, key_size))
                return -ENOENT;
        r = pool_enter(map->pool, &thread);
        if (r)
                return r;
        r = shm_map_delete(&thread->actor, &map->trie, &k, expected);
        pool_leave(map->pool, thread);
        pool_run_deferred(map->pool);
        return r;
}

_public_ int tslab_map_delete(struct tslab_map *map, const void *key, size_t key_size) {
        return remove_key(map, key, key_size, 0);
}

_public_ int tslab_map_delete_version(struct tslab_map *map, const void *key, size_t key_size,
                                      tslab_handle version) {
        return version == 0 ? -EAGAIN : remove_key(map, key, key_size, version);
}

_public_ ssize_t tslab_map_expire(struct tslab_map *map, uint32_t epoch) {
        ShmTrieScan scan = {};
        ThreadState *thread;
        ssize_t n = 0, k;
        int r;

        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&map->pool->arena);
        while (!scan.done) {
                r = pool_enter(map->pool, &thread);
                if (r)
                        return r;
                k = shm_map_expire(&thread->actor, &map->trie, epoch, &scan, EXPIRE_SLICE);
                pool_leave(map->pool, thread);
                pool_run_deferred(map->pool);
                if (k < 0)
                        return k;
                n += k;
        }
        return n;
}

_public_ int tslab_map_next(struct tslab_map *map, struct tslab_map_iter *iter) {
        ShmTrieScan scan = {
                .hash = iter->position[0],
                .position = iter->position[1] & 0xffff,
                .done = iter->position[1] >> 16 & 1,
                .n_words = iter->position[1] >> 17,
        };
        ShmMapView view;
        int r;

        static_assert(sizeof(iter->buffer) >= SHM_CLASS_SIZE_MAX, "an entry fits");
        r = shm_map_next(&map->trie, &scan, iter->buffer, &view);
        iter->position[0] = scan.hash;
        iter->position[1] = scan.n_words << 17 | (uint64_t) scan.done << 16 | scan.position;
        if (r <= 0)
                return (int) unless_closed(map, r);
        iter->key = iter->buffer;
        iter->key_size = view.head.key_size;
        iter->value = view.head.flags & SHM_LEAF_CHAINED
                              ? NULL
                              : (const uint8_t *) iter->buffer + view.head.key_size;
        iter->value_size = view.head.value_size;
        iter->epoch = view.head.epoch;
        iter->version = view.handle;
        return 1;
}

_public_ ssize_t tslab_map_count(struct tslab_map *map) {
        return unless_closed(map, shm_map_count(&map->trie));
}
