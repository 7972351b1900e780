#pragma once
/*
 * The calls of libtslab in the form that cgo takes at the least cost: pointers to bytes, which cgo need not check, and
 * structs without pointers. No memory of Go's is kept beyond a call. A map is a number: cgo would look at a pointer to
 * a struct that it does not know, and older compilers allocate for that.
 */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <string.h>

typedef unsigned char byte_t;
typedef uintptr_t map_t;

#define MAP ((struct tslab_map *) map)

/* So many keys of a batch are at work at one time; their items are on the stack. */
enum { SHIM_BATCH = 64 };

static inline int64_t shim_get(map_t map, const byte_t *key, size_t key_size, byte_t *buffer, size_t size) {
        return tslab_map_get(MAP, key, key_size, buffer, size, NULL);
}

static inline int64_t shim_get_with(map_t map, const byte_t *key, size_t key_size, byte_t *buffer,
                                    size_t size, struct tslab_map_info *info) {
        info->size = sizeof(*info);
        return tslab_map_get_with(MAP, key, key_size, buffer, size, info);
}

static inline int64_t shim_take(map_t map, const byte_t *key, size_t key_size, byte_t *buffer, size_t size,
                                struct tslab_map_info *info) {
        info->size = sizeof(*info);
        info->accept = 0;
        return tslab_map_take(MAP, key, key_size, buffer, size, info);
}

static inline int64_t shim_get_touch(map_t map, const byte_t *key, size_t key_size, uint64_t ttl_ms,
                                     byte_t *buffer, size_t size, struct tslab_map_info *info) {
        info->size = sizeof(*info);
        info->accept = 0;
        return tslab_map_get_touch(MAP, key, key_size, ttl_ms, buffer, size, info);
}

static inline int shim_tag(map_t map, const byte_t *tag, size_t tag_size, tslab_handle *ret) {
        return tslab_map_tag(MAP, tag, tag_size, TSLAB_EPOCH_CURRENT, ret);
}

static inline int shim_invalidate(map_t map, const byte_t *tag, size_t tag_size) {
        return tslab_map_invalidate(MAP, tag, tag_size);
}

static inline int shim_put(map_t map, const byte_t *key, size_t key_size, const byte_t *value,
                           size_t value_size) {
        return tslab_map_put(MAP, key, key_size, value, value_size, TSLAB_EPOCH_CURRENT);
}

static inline int shim_put_with(map_t map, const byte_t *key, size_t key_size, const byte_t *value,
                                size_t value_size, uint32_t mode, uint32_t epoch, uint64_t ttl_ms,
                                tslab_handle version, const tslab_handle *tags, size_t n_tags) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = epoch,
                                                       .ttl_ms = ttl_ms,
                                                       .mode = mode,
                                                       .version = version,
                                                       .tags = tags,
                                                       .n_tags = (uint32_t) n_tags };

        return tslab_map_put_with(MAP, key, key_size, value, value_size, &options);
}

static inline int shim_delete(map_t map, const byte_t *key, size_t key_size, tslab_handle version) {
        return version ? tslab_map_delete_version(MAP, key, key_size, version)
                       : tslab_map_delete(MAP, key, key_size);
}

static inline int shim_touch(map_t map, const byte_t *key, size_t key_size, uint64_t ttl_ms) {
        return tslab_map_touch(MAP, key, key_size, ttl_ms);
}

static inline int shim_add(map_t map, const byte_t *key, size_t key_size, int64_t delta, int64_t initial,
                           uint64_t ttl_ms, int64_t *ret) {
        return tslab_map_add(MAP, key, key_size, delta, initial, ttl_ms, ret);
}

static inline int shim_set_counter(map_t map, const byte_t *key, size_t key_size, int64_t number,
                                   uint64_t ttl_ms) {
        const struct tslab_map_add_options options = { .size = sizeof(options),
                                                       .mode = TSLAB_MAP_ADD_SET,
                                                       .ttl_ms = ttl_ms };

        return tslab_map_add_with(MAP, key, key_size, number, &options, NULL);
}

static inline int shim_limit(map_t map, const byte_t *key, size_t key_size, double per_second, uint32_t burst,
                             uint32_t cost, uint64_t *ret_retry_ms) {
        return tslab_map_limit(MAP, key, key_size, per_second, burst, cost, ret_retry_ms);
}

static inline int shim_claim(map_t map, const byte_t *key, size_t key_size, uint32_t limit_ms,
                             tslab_handle *ret) {
        return limit_ms ? tslab_map_claim_for(MAP, key, key_size, TSLAB_EPOCH_CURRENT, limit_ms, ret)
                        : tslab_map_claim(MAP, key, key_size, TSLAB_EPOCH_CURRENT, ret);
}

static inline int shim_extend(map_t map, const byte_t *key, size_t key_size, uint32_t limit_ms,
                              tslab_handle *version) {
        return tslab_map_claim_extend(MAP, key, key_size, limit_ms, version);
}

static inline int shim_is_claimed(map_t map, const byte_t *key, size_t key_size, tslab_handle version) {
        return tslab_map_wait(MAP, key, key_size, version, 0);
}

static inline int shim_wait(struct tslab_waiter *waiter, map_t map, const byte_t *key, size_t key_size,
                            tslab_handle version, uint64_t *ret) {
        return tslab_waiter_add(waiter, MAP, key, key_size, version, UINT32_MAX, ret);
}

static inline int shim_next(map_t map, struct tslab_map_cursor *cursor, byte_t *buffer, size_t size,
                            struct tslab_map_info *info) {
        info->size = sizeof(*info);
        info->accept = 0;
        return tslab_map_next(MAP, cursor, buffer, size, info);
}

/*
 * Gets n keys, which lie one behind the other: sizes[] has how long they are. The value of each goes to a room of its
 * own in `values`, and its size, or the error, to results[].
 */
static inline int64_t shim_get_many(map_t map, const byte_t *keys, const uint32_t *sizes, size_t n,
                                    byte_t *values, size_t room, int64_t *results) {
        struct tslab_map_item items[SHIM_BATCH];
        int64_t r;

        for (size_t i = 0; i < n; i++) {
                items[i] = (struct tslab_map_item){
                        .key = keys, .key_size = sizes[i], .value = values + i * room, .value_size = room
                };
                keys += sizes[i];
        }
        r = tslab_map_get_many(MAP, items, n);
        for (size_t i = 0; i < n; i++)
                results[i] = items[i].result;
        return r;
}

/* Sets n keys. In `bytes` each key stands before its value; sizes[] has the sizes of both, in turn. */
static inline int64_t shim_put_many(map_t map, const byte_t *bytes, const uint32_t *sizes, size_t n,
                                    uint32_t mode, uint32_t epoch, uint64_t ttl_ms, const tslab_handle *tags,
                                    size_t n_tags, int64_t *results) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = epoch,
                                                       .ttl_ms = ttl_ms,
                                                       .mode = mode,
                                                       .tags = tags,
                                                       .n_tags = (uint32_t) n_tags };
        struct tslab_map_item items[SHIM_BATCH];
        int64_t r;

        for (size_t i = 0; i < n; i++) {
                items[i] = (struct tslab_map_item){ .key = bytes, .key_size = sizes[2 * i] };
                bytes += sizes[2 * i];
                items[i].value = (void *) bytes;
                items[i].value_size = sizes[2 * i + 1];
                bytes += sizes[2 * i + 1];
        }
        r = tslab_map_put_many(MAP, items, n, &options);
        for (size_t i = 0; i < n; i++)
                results[i] = items[i].result;
        return r;
}
