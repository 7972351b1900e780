/* The calls on maps: they check a program's arguments and enter the pool; shm/map/entry/map.h does the rest. */
#include "libclient/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/pool/host.h"
#include "libclient/pool/sampler.h"
#include "shm/arena/root.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/tag.h"
#include "shm/map/entry/take.h"

/* Leaves looked at before a record that threads share is given to the next. */
#define EXPIRE_SLICE 256

bool map_key_init(ShmMapKey *key, const struct tslab_map *map, const void *bytes, size_t size) {
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

/*
 * Counts a get, unless the thread has no record. As for the fast path, it is enough that the pool was open a moment
 * ago: see invariant 4 in libclient/pool-close.c.
 */
static inline void count_get(const struct tslab_map *map, ssize_t result) {
        ThreadState *thread = pool_thread(map->pool) ?: pool_thread_slow(map->pool);

        if (!thread)
                return;
        if (result >= 0)
                shm_tally_hit(&thread->actor, &map->trie);
        else if (result == -ENOENT)
                shm_tally_miss(&thread->actor, &map->trie);
}

ssize_t map_get_key(struct tslab_map *map, const ShmMapKey *key, void *buffer, size_t buffer_size,
                    ShmMapView *ret_view) {
        ssize_t n = shm_map_get(&map->trie, key, buffer, buffer_size, ret_view);

        count_get(map, n);
        return n == -ENOENT ? unless_closed(map, n) : n;
}

typedef ssize_t GetValue(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                         ShmMapView *ret_view);

static inline ssize_t get_value(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                                size_t buffer_size, GetValue *get, ShmMapView *view) {
        ShmMapKey k;
        ssize_t n;

        if (!map_key_init(&k, map, key, key_size))
                return -ENOENT;
        n = get(&map->trie, &k, buffer, buffer_size, view);
        count_get(map, n);
        return n == -ENOENT ? unless_closed(map, n) : n;
}

static ssize_t map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                       size_t buffer_size, ShmMapView *view) {
        return get_value(map, key, key_size, buffer, buffer_size, shm_map_get, view);
}

/* 0 where the caller's version has no such field. */
static uint32_t accepted_flags(const struct tslab_map_info *info) {
        return info && info->size >= offsetof(struct tslab_map_info, key_size) ? info->accept : 0;
}

/* map_get(), also of a stale value if the caller accepts it. */
static ssize_t map_get_accepted(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                                size_t buffer_size, const struct tslab_map_info *info, ShmMapView *view) {
        if (accepted_flags(info) & TSLAB_MAP_STALE)
                return get_value(map, key, key_size, buffer, buffer_size, shm_map_get_stale, view);
        return map_get(map, key, key_size, buffer, buffer_size, view);
}

_public_ ssize_t tslab_map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                               size_t buffer_size, tslab_handle *ret_version) {
        ShmMapView view;
        ssize_t n;

        n = map_get(map, key, key_size, buffer, buffer_size, &view);
        if (n >= 0 && ret_version)
                *ret_version = view.handle;
        return n;
}

/* All fields but size and accept, which are the caller's. */
static inline void describe_entry(const struct tslab_map *map, const ShmMapView *view, uint32_t flags,
                                  struct tslab_map_info *ret) {
        uint64_t now_ms, ttl_left_ms = UINT64_MAX;

        if (__builtin_expect(view->is_over, 0)) {
                ttl_left_ms = 0;
        } else if (view->expires != 0 && view->expires != SHM_MAP_FOREVER) {
                now_ms = shm_map_now_ms(&map->trie);
                ttl_left_ms = view->expires > now_ms ? view->expires - now_ms : 0;
        }
        ret->epoch = view->head.epoch;
        ret->flags = flags | (view->head.flags & SHM_LEAF_CELL ? TSLAB_MAP_COUNTER : 0) |
                     (view->head.flags & SHM_LEAF_BUCKET ? TSLAB_MAP_BUCKET : 0) |
                     (shm_map_view_has_tags(view) ? TSLAB_MAP_TAGGED : 0) |
                     (view->is_over ? TSLAB_MAP_STALE : 0);
        ret->version = view->is_over ? 0 : view->handle;
        ret->ttl_left_ms = ttl_left_ms;
        ret->value_size = view->head.value_size;
        ret->key_size = view->head.key_size;
        ret->place = view->handle;
}

/* For a caller of an earlier version. */
__attribute__((noinline)) static void tell_entry_sized(const struct tslab_map *map, const ShmMapView *view,
                                                       uint32_t flags, struct tslab_map_info *ret) {
        struct tslab_map_info info = { .size = ret->size, .accept = accepted_flags(ret) };

        describe_entry(map, view, flags, &info);
        memcpy(ret, &info, info.size);
}

/*
 * `ret` has its size already, or is NULL. The fields are written in place: a struct that is copied at once after its
 * fields were written is loaded in wider pieces than it was stored, for which a processor waits until the stores have
 * left it.
 */
static inline void tell_entry(const struct tslab_map *map, const ShmMapView *view, uint32_t flags,
                              struct tslab_map_info *ret) {
        if (__builtin_expect(!ret, 0))
                return;
        if (__builtin_expect(ret->size >= sizeof(*ret), 1))
                describe_entry(map, view, flags, ret);
        else
                tell_entry_sized(map, view, flags, ret);
}

static bool is_info(const struct tslab_map_info *info) {
        return !info || (info->size >= sizeof(info->size) &&
                         (accepted_flags(info) == 0 || accepted_flags(info) == TSLAB_MAP_STALE));
}

_public_ ssize_t tslab_map_get_with(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                                    size_t buffer_size, struct tslab_map_info *ret_info) {
        ShmMapView view;
        ssize_t n;

        if (!is_info(ret_info))
                return -EINVAL;
        n = map_get_accepted(map, key, key_size, buffer, buffer_size, ret_info, &view);
        if (n >= 0 || n == -EMSGSIZE)
                tell_entry(map, &view, 0, ret_info);
        return n;
}

static int map_look(struct tslab_map *map, const void *key, size_t key_size,
                    const struct tslab_map_info *info, ShmMapView *view) {
        bool stale = accepted_flags(info) & TSLAB_MAP_STALE;
        ShmMapKey k;
        int r;

        if (!map_key_init(&k, map, key, key_size))
                return -ENOENT;
        r = stale ? shm_map_look_stale(&map->trie, &k, view) : shm_map_look(&map->trie, &k, view);
        count_get(map, r);
        return r == -ENOENT ? (int) unless_closed(map, r) : r;
}

_public_ int tslab_map_find(struct tslab_map *map, const void *key, size_t key_size,
                            struct tslab_map_info *ret_info) {
        ShmMapView view;
        int r;

        if (!is_info(ret_info))
                return -EINVAL;
        r = map_look(map, key, key_size, ret_info, &view);
        if (r == 0)
                tell_entry(map, &view, 0, ret_info);
        return r;
}

_public_ ssize_t tslab_map_read(struct tslab_map *map, tslab_handle place, size_t offset, void *buffer,
                                size_t buffer_size) {
        ssize_t n = shm_map_read(&map->trie, place, offset < UINT32_MAX ? (uint32_t) offset : UINT32_MAX,
                                 buffer, buffer_size);

        return n == -ESTALE ? unless_closed(map, n) : n;
}

_public_ int tslab_map_get_alloc(struct tslab_map *map, const void *key, size_t key_size, void **ret,
                                 struct tslab_map_info *ret_info) {
        ShmMapView view;
        uint8_t *bytes;
        ssize_t n;

        if (!is_info(ret_info))
                return -EINVAL;
        do {
                n = map_look(map, key, key_size, ret_info, &view);
                if (n < 0)
                        return (int) n;
                bytes = malloc((size_t) view.head.value_size + 1);
                if (!bytes)
                        return -ENOMEM;
                n = tslab_map_read(map, view.handle, 0, bytes, view.head.value_size);
                if (n < 0)
                        free(bytes);
        } while (n == -ESTALE);
        if (n < 0)
                return (int) n;
        bytes[n] = 0;
        tell_entry(map, &view, 0, ret_info);
        *ret = bytes;
        return 0;
}

/* Counts a change with sizes that are too large even for a call of the core. */
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
static inline void note_put(struct tslab *pool, uint64_t version, size_t key_size, size_t value_size) {
        size_t size = sizeof(ShmMapLeaf) + key_size + value_size;

        if (sampler_is_on(pool) && size <= shm_arena_size_max(&pool->arena))
                sampler_note_slow(pool, version, size);
}

static int put_entered(struct tslab_map *map, const ShmMapKey *key, const ShmMapPut *put) {
        ThreadState *thread;
        uint64_t version;
        int r;

        r = pool_enter(map->pool, &thread);
        if (r)
                return r;
        r = shm_map_put(&thread->actor, &map->trie, key, put, &version);
        if (r == 0)
                note_put(map->pool, version, key->size, put->value_size);
        map_end_change(map, thread);
        return r;
}

/* In both of its callers: a put of one key makes no second call, which would take 1 % of it. */
static inline __attribute__((always_inline)) int put_key(struct tslab_map *map, const ShmMapKey *key,
                                                         ShmMapPut *p, size_t value_size) {
        HostRetry retry = {};
        int r;

        if (value_size > SHM_LEAF_VALUE_MAX)
                return refuse_large(map, key->size, value_size);
        p->value_size = (uint32_t) value_size;
        if (value_size == 0)
                p->value = "";
        do
                r = put_entered(map, key, p);
        while (map_make_room(map, r, &retry));
        return r;
}

int map_put_key(struct tslab_map *map, const ShmMapKey *key, ShmMapPut *p, size_t value_size) {
        return put_key(map, key, p, value_size);
}

int map_put(struct tslab_map *map, const void *key, size_t key_size, ShmMapPut *p, size_t value_size) {
        ShmMapKey k;

        if (map->pool->is_reader)
                return -EROFS;
        if (!map_key_init(&k, map, key, key_size))
                return refuse_large(map, key_size, value_size);
        return put_key(map, &k, p, value_size);
}

int map_put_init(ShmMapPut *ret, const struct tslab_map_put_options *options) {
        struct tslab_map_put_options room = { .epoch = TSLAB_EPOCH_CURRENT };
        const struct tslab_map_put_options *o = map_options_use(&room, sizeof(room), options);

        if (!o || o->mode > TSLAB_MAP_REPLACE || o->n_tags > TSLAB_MAP_TAGS_MAX ||
            (o->n_tags != 0 && !o->tags) || o->reserved != 0 || !shm_map_ttl_is_sound(o->ttl_ms))
                return -EINVAL;
        *ret = (ShmMapPut){
                .mode = (ShmMapMode) o->mode,
                .expected = o->version,
                .epoch = o->epoch,
                .ttl_ms = o->ttl_ms,
                .tags = o->tags,
                .n_tags = o->n_tags,
        };
        return 0;
}

_public_ int tslab_map_put(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                           size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_PUT, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

_public_ int tslab_map_replace(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                               const void *value, size_t value_size, uint32_t epoch) {
        ShmMapPut p = { .mode = SHM_MAP_REPLACE, .expected = version, .value = value, .epoch = epoch };

        return map_put(map, key, key_size, &p, value_size);
}

_public_ int tslab_map_put_with(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                                size_t value_size, const struct tslab_map_put_options *options) {
        ShmMapPut p;

        if (map_put_init(&p, options) < 0)
                return -EINVAL;
        p.value = value;
        return map_put(map, key, key_size, &p, value_size);
}

int map_remove_key(struct tslab_map *map, const void *key, size_t key_size, uint64_t expected) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        r = map_begin_change(map, &k, key, key_size, -ENOENT, &thread);
        if (r)
                return r;
        r = shm_map_delete(&thread->actor, &map->trie, &k, expected);
        map_end_change(map, thread);
        return r;
}

_public_ int tslab_map_delete(struct tslab_map *map, const void *key, size_t key_size) {
        return map_remove_key(map, key, key_size, 0);
}

/* Stale values must not keep a map, or the pool, full. In a daemon's pool the daemon deletes them soon. */
static void ask_for_stale(const struct tslab_map *map, int r) {
        if (r == -ENOMEM)
                shm_expiry_squeeze(&map->pool->arena, 0);
        else if (map->trie.map != 0 && shm_map_options(&map->trie).stale_ms != 0)
                shm_expiry_squeeze(&map->pool->arena, map->trie.map);
}

bool map_make_room_slow(struct tslab_map *map, int r, HostRetry *retry) {
        ThreadState *thread;

        if (retry->n_slices == 0)
                ask_for_stale(map, r);
        if (map->pool->host->delete_expired(map->pool, retry))
                return true;
        /* Threads may have the memory in their caches. */
        if (r == -ENOMEM && !retry->asked) {
                retry->asked = true;
                if (pool_want_caches(map->pool))
                        return true;
        }
        if (pool_enter(map->pool, &thread) == 0) {
                shm_map_count_failure(&thread->actor, &map->trie);
                pool_leave(map->pool, thread);
        }
        return false;
}

int map_begin_change(struct tslab_map *map, ShmMapKey *key, const void *bytes, size_t size, int absent,
                     ThreadState **ret) {
        if (map->pool->is_reader)
                return -EROFS;
        if (!map_key_init(key, map, bytes, size))
                return absent;
        return pool_enter(map->pool, ret);
}

_public_ ssize_t tslab_map_take(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                                size_t buffer_size, struct tslab_map_info *ret_info) {
        ThreadState *thread;
        ShmMapView view;
        ShmMapKey k;
        ssize_t n;
        int r;

        if (!is_info(ret_info) || accepted_flags(ret_info) != 0)
                return -EINVAL;
        r = map_begin_change(map, &k, key, key_size, -ENOENT, &thread);
        if (r)
                return r;
        n = shm_map_take(&thread->actor, &map->trie, &k, buffer, buffer_size, &view);
        map_end_change(map, thread);
        if (n >= 0 || n == -EMSGSIZE)
                tell_entry(map, &view, 0, ret_info);
        return n;
}

_public_ int tslab_map_touch(struct tslab_map *map, const void *key, size_t key_size, uint64_t ttl_ms) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        if (!shm_map_ttl_is_sound(ttl_ms))
                return -EINVAL;
        r = map_begin_change(map, &k, key, key_size, -ENOENT, &thread);
        if (r)
                return r;
        r = shm_map_touch(&thread->actor, &map->trie, &k, ttl_ms);
        map_end_change(map, thread);
        return r;
}

_public_ ssize_t tslab_map_get_touch(struct tslab_map *map, const void *key, size_t key_size, uint64_t ttl_ms,
                                     void *buffer, size_t buffer_size, struct tslab_map_info *ret_info) {
        ThreadState *thread;
        ShmMapView view;
        ShmMapKey k;
        ssize_t n;
        int r;

        if (!is_info(ret_info) || accepted_flags(ret_info) != 0 || !shm_map_ttl_is_sound(ttl_ms))
                return -EINVAL;
        r = map_begin_change(map, &k, key, key_size, -ENOENT, &thread);
        if (r)
                return r;
        n = shm_map_get_touch(&thread->actor, &map->trie, &k, ttl_ms, buffer, buffer_size, &view);
        if (n >= 0)
                shm_tally_hit(&thread->actor, &map->trie);
        else if (n == -ENOENT)
                shm_tally_miss(&thread->actor, &map->trie);
        map_end_change(map, thread);
        if (n >= 0 || n == -EMSGSIZE)
                tell_entry(map, &view, 0, ret_info);
        return n;
}

_public_ int tslab_map_tag(struct tslab_map *map, const void *tag, size_t tag_size, uint32_t epoch,
                           tslab_handle *ret_tag) {
        HostRetry retry = {};
        ThreadState *thread;
        ShmMapKey k;
        int r;

        do {
                r = map_begin_change(map, &k, tag, tag_size, -E2BIG, &thread);
                if (r)
                        return r;
                k = shm_map_tag_key(&k);
                r = shm_map_tag(&thread->actor, &map->trie, &k, epoch, ret_tag);
                map_end_change(map, thread);
        } while (map_make_room(map, r, &retry));
        return r;
}

_public_ int tslab_map_invalidate(struct tslab_map *map, const void *tag, size_t tag_size) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        r = map_begin_change(map, &k, tag, tag_size, -ENOENT, &thread);
        if (r)
                return r;
        k = shm_map_tag_key(&k);
        r = shm_map_invalidate(&thread->actor, &map->trie, &k);
        map_end_change(map, thread);
        return r;
}

/* As map_begin_change(), of a counter's or bucket's key. */
static int begin_cell(struct tslab_map *map, ShmMapKey *key, const void *bytes, size_t size,
                      ThreadState **ret) {
        int r;

        if (map->pool->is_reader)
                return -EROFS;
        if (size > shm_map_key_max(&map->pool->arena))
                return -E2BIG;
        r = pool_enter(map->pool, ret);
        if (r)
                return r;
        *key = (ShmMapKey){ size > 0 ? bytes : "", (uint32_t) size, SHM_CELL_HASH_LATER };
        return 0;
}

static int add_to_counter(struct tslab_map *map, const void *key, size_t key_size, const ShmMapAdd *add,
                          int64_t *ret_value) {
        HostRetry retry = {};
        ThreadState *thread;
        int64_t value;
        ShmMapKey k;
        int r;

        if (!shm_map_ttl_is_sound(add->ttl_ms))
                return -EINVAL;
        do {
                r = begin_cell(map, &k, key, key_size, &thread);
                if (r)
                        return r;
                r = shm_map_add(&thread->actor, &map->trie, &k, add, &value);
                map_end_change(map, thread);
        } while (map_make_room(map, r, &retry));
        if (r == 0 && ret_value)
                *ret_value = value;
        return r;
}

_public_ int tslab_map_add(struct tslab_map *map, const void *key, size_t key_size, int64_t delta,
                           int64_t initial, uint64_t ttl_ms, int64_t *ret_value) {
        const ShmMapAdd add = {
                .delta = delta, .initial = initial, .ttl_ms = ttl_ms, .epoch = SHM_EPOCH_CURRENT
        };

        return add_to_counter(map, key, key_size, &add, ret_value);
}

_public_ int tslab_map_add_with(struct tslab_map *map, const void *key, size_t key_size, int64_t value,
                                const struct tslab_map_add_options *options, int64_t *ret_value) {
        static const ShmMapAddMode modes[] = {
                [TSLAB_MAP_ADD] = SHM_MAP_ADD,
                [TSLAB_MAP_ADD_WRAP] = SHM_MAP_ADD_WRAP,
                [TSLAB_MAP_ADD_SET] = SHM_MAP_ADD_SET,
        };
        struct tslab_map_add_options room = {};
        const struct tslab_map_add_options *o = map_options_use(&room, sizeof(room), options);

        if (!o || o->mode > TSLAB_MAP_ADD_SET || o->reserved != 0)
                return -EINVAL;
        return add_to_counter(map, key, key_size,
                              &(ShmMapAdd){
                                      .delta = value,
                                      .initial = o->initial,
                                      .mode = modes[o->mode],
                                      .ttl_ms = o->ttl_ms,
                                      .epoch = SHM_EPOCH_CURRENT,
                              },
                              ret_value);
}

_public_ int tslab_map_add_at(struct tslab_map *map, tslab_handle counter, int64_t delta,
                              int64_t *ret_value) {
        ThreadState *thread;
        int64_t value;
        int r;

        if (map->pool->is_reader)
                return -EROFS;
        r = pool_enter(map->pool, &thread);
        if (r)
                return r;
        r = shm_map_add_at(&thread->actor, &map->trie, counter, delta, &value);
        map_end_change(map, thread);
        if (r == 0 && ret_value)
                *ret_value = value;
        return r;
}

/* False: out of range. */
static bool rate_init(ShmMapRate *rate, double per_second, uint32_t burst, uint32_t cost) {
        double token_ns = 1e9 / per_second;

        if (!(per_second > 0 && per_second <= 1e9) || burst == 0 || cost > burst || token_ns * burst > 0x1p62)
                return false;
        *rate = (ShmMapRate){
                .burst_ns = (uint64_t) (token_ns * burst),
                .cost_ns = (uint64_t) (token_ns * cost),
                .epoch = SHM_EPOCH_CURRENT,
        };
        return true;
}

_public_ int tslab_map_limit(struct tslab_map *map, const void *key, size_t key_size, double per_second,
                             uint32_t burst, uint32_t cost, uint64_t *ret_retry_ms) {
        HostRetry retry = {};
        ThreadState *thread;
        uint64_t wait_ns;
        ShmMapRate rate;
        ShmMapKey k;
        int r;

        if (!rate_init(&rate, per_second, burst, cost))
                return -EINVAL;
        do {
                r = begin_cell(map, &k, key, key_size, &thread);
                if (r)
                        return r;
                r = shm_map_limit(&thread->actor, &map->trie, &k, &rate, &wait_ns);
                map_end_change(map, thread);
        } while (map_make_room(map, r, &retry));
        if (r >= 0 && ret_retry_ms)
                *ret_retry_ms = (wait_ns + SHM_NS_PER_MS - 1) / SHM_NS_PER_MS;
        return r;
}

_public_ int tslab_map_statistics(struct tslab_map *map, struct tslab_map_statistics *ret) {
        struct tslab_map_statistics s = { .size = ret->size };
        ShmMapTotals t;

        if (s.size < sizeof(s.size))
                return -EINVAL;
        if (map->trie.map == 0)
                return -EIDRM;
        shm_map_totals(&map->pool->arena, map->trie.map - 1, &t);
        /* After the counts: they may be those of the next map of this name. */
        if (pool_is_closed(map->pool) ||
            shm_root_of(&map->pool->arena, map->trie.map - 1) != map->trie.root ||
            !shm_object_live(&map->pool->arena, map->trie.root))
                return -EIDRM;
        s.entries = t.entries;
        s.bytes = t.bytes;
        s.hits = t.hits;
        s.misses = t.misses;
        s.inserts = t.inserts;
        s.deletes = t.deletes;
        s.expirations = t.expirations;
        s.evictions = t.evictions;
        s.failures = t.failures;
        memcpy(ret, &s, s.size < sizeof(s) ? s.size : sizeof(s));
        return 0;
}

_public_ ssize_t tslab_map_expire(struct tslab_map *map, uint32_t epoch) {
        ShmTrieScan scan = {};
        ThreadState *thread;
        ssize_t n = 0, k;
        int r;

        static_assert(TSLAB_MAP_EPOCH_ALL == SHM_MAP_EPOCH_ALL, "passed on");
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

static ShmTrieScan scan_of(const struct tslab_map_cursor *cursor) {
        return (ShmTrieScan){
                .hash = cursor->at[0],
                .position = cursor->at[1] & 0xffff,
                .done = cursor->at[1] >> 16 & 1,
                .n_words = cursor->at[1] >> 17,
        };
}

static struct tslab_map_cursor cursor_of(const ShmTrieScan *scan) {
        return (struct tslab_map_cursor){ { scan->hash, scan->n_words << 17 | (uint64_t) scan->done << 16 |
                                                                scan->position } };
}

_public_ int tslab_map_next(struct tslab_map *map, struct tslab_map_cursor *cursor, void *buffer,
                            size_t buffer_size, struct tslab_map_info *ret_info) {
        ShmTrieScan scan = scan_of(cursor);
        ShmMapView view;
        int r;

        if (!is_info(ret_info))
                return -EINVAL;
        r = shm_map_next(&map->trie, &scan, buffer, buffer_size, &view);
        *cursor = cursor_of(&scan);
        if (r == 1 || r == -EUCLEAN || r == -EMSGSIZE) {
                bool is_whole = r == 1 && view.head.value_size <= buffer_size - view.head.key_size;

                tell_entry(map, &view, is_whole ? 0 : TSLAB_MAP_KEY_ONLY, ret_info);
        }
        return (int) unless_closed(map, r);
}

_public_ ssize_t tslab_map_count(struct tslab_map *map) {
        return unless_closed(map, shm_map_count(&map->trie));
}
