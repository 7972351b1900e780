/*
 * Maps. What a call finds out about an entry is in the Env's Info; values that fit are in its scratch memory.
 */
#include "addon.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_VALUE "a value is a string, a Buffer or a Uint8Array"

enum { ABSENT = -1, TOO_LARGE = -2 }; /* instead of a size */

enum { SLAB_VALUE_MAX = 4096 }; /* as lib/slab.js says */

/* The arguments of a call, first the key, which is to be ended by addon_bytes_end(). NULL: it has thrown. */
Map *map_enter(napi_env env, napi_callback_info info, const char *call, size_t n, napi_value *ret_arguments,
               struct Bytes *ret_key) {
        Map *map;
        int r;

        if (napi_get_cb_info(env, info, &n, ret_arguments, NULL, (void **) &map) != napi_ok)
                return NULL;
        r = map->map ? addon_key(env, ret_arguments[0], ret_key) : -EBADF;
        if (r == 0)
                return map;
        if (r == -EINVAL)
                addon_throw_type(env, "a key is a string, a Buffer or a Uint8Array");
        else
                addon_fail(env, call, r);
        return NULL;
}

napi_value map_size(napi_env env, int32_t size) {
        napi_value value;

        return napi_create_int32(env, size, &value) == napi_ok ? value : NULL;
}

void map_tell(Map *map, const struct tslab_map_info *from) {
        Info *info = INFO(map);

        info->version = from->version;
        info->ttl_left_ms = from->ttl_left_ms == UINT64_MAX ? INFINITY : (double) from->ttl_left_ms;
        info->value_size = (double) from->value_size;
        info->flags = from->flags;
        info->key_size = from->key_size;
        info->kind = INFO_BYTES;
}

/* A size, or a reason why there is none; other errors are thrown. */
static napi_value map_sized(napi_env env, const char *call, ssize_t n) {
        if (n >= 0)
                return map_size(env, (int32_t) n);
        if (n == -ENOENT)
                return map_size(env, ABSENT);
        if (n == -EMSGSIZE)
                return map_size(env, TOO_LARGE);
        return addon_fail(env, call, (int) n);
}

/* bind(buffer): where getInto() puts values. If a buffer loses its memory, its length changes: lib/ binds it anew. */
static napi_value map_bind(napi_env env, napi_callback_info info) {
        napi_typedarray_type type;
        napi_value buffer;
        size_t n = 1;
        Map *map;

        if (napi_get_cb_info(env, info, &n, &buffer, NULL, (void **) &map) != napi_ok)
                return NULL;
        map->bound = NULL;
        map->bound_size = 0;
        if (napi_get_typedarray_info(env, buffer, &type, &map->bound_size, &map->bound, NULL, NULL) !=
                    napi_ok ||
            type != napi_uint8_array) {
                map->bound_size = 0;
                return addon_throw_type(env, "values are copied into a Buffer or a Uint8Array");
        }
        return NULL;
}

/*
 * Puts the size of a value into the Info, where JavaScript reads it faster than it takes a result. False: there is
 * none, or it has thrown.
 */
static bool map_found(napi_env env, Map *map, ssize_t n) {
        if (n < 0 && n != -ENOENT && n != -EMSGSIZE) {
                addon_fail(env, "map_get", (int) n);
                return false;
        }
        INFO(map)->size = n >= 0 ? (int32_t) n : n == -ENOENT ? ABSENT : TOO_LARGE;
        return n >= 0;
}

/* As map_enter(), for calls whose only argument is a key that lib/ has seen to be a Uint8Array. */
static Map *map_enter_bytes(napi_env env, napi_callback_info info, struct Bytes *ret_key) {
        napi_value key;
        size_t n = 1;
        void *data;
        Map *map;

        if (napi_get_cb_info(env, info, &n, &key, NULL, (void **) &map) != napi_ok)
                return NULL;
        if (napi_get_typedarray_info(env, key, NULL, &ret_key->size, &data, NULL, NULL) != napi_ok) {
                addon_throw_type(env, "a key is a string, a Buffer or a Uint8Array");
                return NULL;
        }
        if (!map->map) {
                addon_fail(env, "map_get", -EBADF);
                return NULL;
        }
        ret_key->held = NULL;
        ret_key->data = data ? data : ret_key->near;
        return map;
}

static napi_value map_copy_into(napi_env env, Map *map, struct Bytes *key) {
        ssize_t n = tslab_map_get(map->map, key->data, key->size, map->bound, map->bound_size, NULL);

        addon_bytes_end(key);
        map_found(env, map, n);
        return NULL;
}

/* getInto(key): the size is in the Info */
static napi_value map_get_into(napi_env env, napi_callback_info info) {
        napi_value arguments[1];
        struct Bytes key;
        Map *map;

        map = map_enter(env, info, "map_get", 1, arguments, &key);
        return map ? map_copy_into(env, map, &key) : NULL;
}

/* getIntoBytes(key): as getInto(), of a Uint8Array */
static napi_value map_get_into_bytes(napi_env env, napi_callback_info info) {
        struct Bytes key;
        Map *map;

        map = map_enter_bytes(env, info, &key);
        return map ? map_copy_into(env, map, &key) : NULL;
}

static napi_value map_copy_to_slab(napi_env env, Map *map, struct Bytes *key) {
        const Env *own = map->pool->env;
        size_t at = INFO(map)->slab_at, room = at < own->slab_size ? own->slab_size - at : 0;
        ssize_t n;

        n = tslab_map_get(map->map, key->data, key->size, own->slab + (room > 0 ? at : 0),
                          room < SLAB_VALUE_MAX ? room : SLAB_VALUE_MAX, NULL);
        addon_bytes_end(key);
        map_found(env, map, n);
        return NULL;
}

/* getSlab(key): the value is in the slab, where lib/ wants it, and its size in the Info; TOO_LARGE: it is elsewhere */
static napi_value map_get_slab(napi_env env, napi_callback_info info) {
        napi_value arguments[1];
        struct Bytes key;
        Map *map;

        map = map_enter(env, info, "map_get", 1, arguments, &key);
        return map ? map_copy_to_slab(env, map, &key) : NULL;
}

/* getSlabBytes(key): as getSlab(), of a Uint8Array */
static napi_value map_get_slab_bytes(napi_env env, napi_callback_info info) {
        struct Bytes key;
        Map *map;

        map = map_enter_bytes(env, info, &key);
        return map ? map_copy_to_slab(env, map, &key) : NULL;
}

static ssize_t map_find(Map *map, const struct Bytes *key, bool is_taken, uint32_t accept, void *buffer,
                        size_t size) {
        struct tslab_map_info about = { .size = sizeof(about), .accept = accept };
        ssize_t n;

        if (is_taken)
                n = tslab_map_take(map->map, key->data, key->size, buffer, size, &about);
        else
                n = tslab_map_get_with(map->map, key->data, key->size, buffer, size, &about);
        if (n >= 0 || n == -EMSGSIZE)
                map_tell(map, &about);
        return n;
}

/* find(key, accept, isTaken, buffer?) -> size; into the scratch memory without a buffer. */
static napi_value map_find_value(napi_env env, napi_callback_info info) {
        size_t size = SCRATCH_SIZE;
        napi_value arguments[4];
        struct Bytes key;
        uint32_t accept;
        void *buffer;
        bool is_taken;
        ssize_t n;
        Map *map;

        map = map_enter(env, info, "map_get_with", 4, arguments, &key);
        if (!map)
                return NULL;
        if (napi_get_typedarray_info(env, arguments[3], NULL, &size, &buffer, NULL, NULL) != napi_ok) {
                buffer = SCRATCH(map);
                size = SCRATCH_SIZE;
        }
        if (!addon_to_uint32(env, arguments[1], &accept))
                accept = 0;
        if (napi_get_value_bool(env, arguments[2], &is_taken) != napi_ok)
                is_taken = false;
        n = map_find(map, &key, is_taken, accept, buffer, size);
        addon_bytes_end(&key);
        return map_sized(env, is_taken ? "map_take" : "map_get_with", n);
}

typedef uint64_t Words __attribute__((vector_size(16), aligned(1), may_alias));

static bool is_ascii(const uint8_t *data, size_t size) {
        Words all = { 0, 0 };
        uint8_t bytes = 0;

        for (; size >= 4 * sizeof(all); data += 4 * sizeof(all), size -= 4 * sizeof(all)) {
                const Words *words = (const Words *) data;

                all |= (words[0] | words[1]) | (words[2] | words[3]);
        }
        for (; size >= sizeof(all); data += sizeof(all), size -= sizeof(all))
                all |= *(const Words *) data;
        for (; size > 0; data++, size--)
                bytes |= *data;
        return ((all[0] | all[1]) & UINT64_C(0x8080808080808080)) == 0 && bytes < 0x80;
}

static napi_value map_text(napi_env env, const uint8_t *data, size_t size) {
        napi_status status;
        napi_value value;

        /* Strings of Latin-1 are copied without a look at each byte. */
        if (is_ascii(data, size))
                status = napi_create_string_latin1(env, (const char *) data, size, &value);
        else
                status = napi_create_string_utf8(env, (const char *) data, size, &value);
        return status == napi_ok ? value : NULL;
}

static napi_value map_make_string(napi_env env, Map *map, struct Bytes *key) {
        ssize_t n = tslab_map_get(map->map, key->data, key->size, SCRATCH(map), SCRATCH_SIZE, NULL);

        addon_bytes_end(key);
        return map_found(env, map, n) ? map_text(env, SCRATCH(map), (size_t) n) : NULL;
}

/* getString(key) -> string, whatever the bytes are; undefined, and a reason in the Info */
static napi_value map_get_string(napi_env env, napi_callback_info info) {
        napi_value arguments[1];
        struct Bytes key;
        Map *map;

        map = map_enter(env, info, "map_get", 1, arguments, &key);
        return map ? map_make_string(env, map, &key) : NULL;
}

/* getStringBytes(key): as getString(), of a Uint8Array */
static napi_value map_get_string_bytes(napi_env env, napi_callback_info info) {
        struct Bytes key;
        Map *map;

        map = map_enter_bytes(env, info, &key);
        return map ? map_make_string(env, map, &key) : NULL;
}

/* The head of JSON behind the tags for self-described CBOR and JSON: its size, or 0. lib/value.js has the format. */
static size_t json_head(const uint8_t *data, size_t size) {
        static const uint8_t magic[] = { 0xd9, 0xd9, 0xf7, 0xd9, 0x01, 0x06 };
        size_t head = sizeof(magic) + 1, text;
        uint8_t low;

        if (size < head || memcmp(data, magic, sizeof(magic)) != 0 || data[sizeof(magic)] >> 5 != 3)
                return 0;
        low = data[sizeof(magic)] & 31;
        text = low;
        if (low >= 24 && low <= 27) {
                size_t n = (size_t) 1 << (low - 24);

                if (size < head + n)
                        return 0;
                text = 0;
                for (size_t i = 0; i < n; i++)
                        text = text << 8 | data[head + i];
                head += n;
        }
        return text == size - head ? head : 0;
}

/*
 * getValue(key, accept) -> a string, which is the value (INFO_TEXT) or JSON of it (INFO_JSON); or the size of other
 * bytes, in the scratch memory.
 */
static napi_value map_get_value(napi_env env, napi_callback_info info) {
        napi_value arguments[2];
        struct Bytes key;
        uint32_t accept;
        uint8_t *data;
        size_t head;
        ssize_t n;
        Map *map;

        map = map_enter(env, info, "map_get_with", 2, arguments, &key);
        if (!map)
                return NULL;
        data = SCRATCH(map);
        if (!addon_to_uint32(env, arguments[1], &accept))
                accept = 0;
        n = map_find(map, &key, false, accept, data, SCRATCH_SIZE);
        addon_bytes_end(&key);
        if (n < 0 || (INFO(map)->flags & TSLAB_MAP_COUNTER))
                return map_sized(env, "map_get_with", n);
        if (is_ascii(data, (size_t) n)) {
                INFO(map)->kind = INFO_TEXT;
                return map_text(env, data, (size_t) n);
        }
        head = json_head(data, (size_t) n);
        if (head == 0)
                return map_size(env, (int32_t) n);
        INFO(map)->kind = INFO_JSON;
        return map_text(env, data + head, (size_t) n - head);
}

/* Whether a change was made that had a condition; other errors are thrown. */
napi_value map_changed(napi_env env, const char *call, int r) {
        napi_value value;

        if (r < 0 && r != -ENOENT && r != -EEXIST && r != -EAGAIN)
                return addon_fail(env, call, r);
        return napi_get_boolean(env, r >= 0, &value) == napi_ok ? value : NULL;
}

/* Sets the tags of a put: an array of what tag() returned. False: it is another thing. */
static bool to_tags(napi_env env, napi_value value, tslab_handle tags[TSLAB_MAP_TAGS_MAX], uint32_t *ret_n) {
        napi_value element;

        if (napi_get_array_length(env, value, ret_n) != napi_ok)
                return false;
        for (uint32_t i = 0; i < *ret_n && i < TSLAB_MAP_TAGS_MAX; i++)
                if (napi_get_element(env, value, i, &element) != napi_ok ||
                    !addon_to_version(env, element, &tags[i]))
                        return false;
        return true;
}

/* put(key, value, ttlMs, mode, version, tags) -> whether the condition held; the last four may be left out. */
static napi_value map_put(napi_env env, napi_callback_info info) {
        struct tslab_map_put_options options = { .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT };
        tslab_handle tags[TSLAB_MAP_TAGS_MAX];
        napi_value arguments[6];
        struct Bytes key, value;
        Map *map;
        int r;

        map = map_enter(env, info, "map_put", 6, arguments, &key);
        if (!map)
                return NULL;
        r = addon_bytes(env, arguments[1], &value);
        if (r < 0) {
                addon_bytes_end(&key);
                return r == -EINVAL ? addon_throw_type(env, NOT_A_VALUE) : addon_fail(env, "map_put", r);
        }
        if (addon_to_lifetime(env, arguments[2], &options.ttl_ms) &&
            addon_to_uint32(env, arguments[3], &options.mode) &&
            addon_to_version(env, arguments[4], &options.version) &&
            to_tags(env, arguments[5], tags, &options.n_tags))
                options.tags = tags;
        r = tslab_map_put_with(map->map, key.data, key.size, value.data, value.size, &options);
        addon_bytes_end(&value);
        addon_bytes_end(&key);
        return map_changed(env, "map_put", r);
}

/* putPlain(key, value): as put() without the others, which take as long to convert as the change takes */
static napi_value map_put_plain(napi_env env, napi_callback_info info) {
        napi_value arguments[2];
        struct Bytes key, value;
        Map *map;
        int r;

        map = map_enter(env, info, "map_put", 2, arguments, &key);
        if (!map)
                return NULL;
        r = addon_bytes(env, arguments[1], &value);
        if (r == 0) {
                r = tslab_map_put(map->map, key.data, key.size, value.data, value.size, TSLAB_EPOCH_CURRENT);
                addon_bytes_end(&value);
        } else if (r == -EINVAL) {
                addon_bytes_end(&key);
                return addon_throw_type(env, NOT_A_VALUE);
        }
        addon_bytes_end(&key);
        return r < 0 ? addon_fail(env, "map_put", r) : NULL;
}

/* remove(key, version?) -> whether it was there, with that version */
static napi_value map_remove(napi_env env, napi_callback_info info) {
        napi_value arguments[2];
        tslab_handle version;
        struct Bytes key;
        Map *map;
        int r;

        map = map_enter(env, info, "map_delete", 2, arguments, &key);
        if (!map)
                return NULL;
        if (addon_to_version(env, arguments[1], &version))
                r = tslab_map_delete_version(map->map, key.data, key.size, version);
        else
                r = tslab_map_delete(map->map, key.data, key.size);
        addon_bytes_end(&key);
        return map_changed(env, "map_delete", r);
}

/* tag(tag) -> a BigInt */
static napi_value map_tag(napi_env env, napi_callback_info info) {
        tslab_handle handle;
        napi_value value;
        struct Bytes tag;
        Map *map;
        int r;

        map = map_enter(env, info, "map_tag", 1, &value, &tag);
        if (!map)
                return NULL;
        r = tslab_map_tag(map->map, tag.data, tag.size, TSLAB_EPOCH_CURRENT, &handle);
        addon_bytes_end(&tag);
        if (r < 0)
                return addon_fail(env, "map_tag", r);
        return napi_create_bigint_uint64(env, handle, &value) == napi_ok ? value : NULL;
}

/* invalidate(tag) -> whether there was such a tag */
static napi_value map_invalidate(napi_env env, napi_callback_info info) {
        napi_value value;
        struct Bytes tag;
        Map *map;
        int r;

        map = map_enter(env, info, "map_invalidate", 1, &value, &tag);
        if (!map)
                return NULL;
        r = tslab_map_invalidate(map->map, tag.data, tag.size);
        addon_bytes_end(&tag);
        return map_changed(env, "map_invalidate", r);
}

/* touch(key, ttlMs) -> whether it is there */
static napi_value map_touch(napi_env env, napi_callback_info info) {
        napi_value arguments[2];
        struct Bytes key;
        uint64_t ttl_ms;
        Map *map;
        int r;

        map = map_enter(env, info, "map_touch", 2, arguments, &key);
        if (!map)
                return NULL;
        r = addon_to_lifetime(env, arguments[1], &ttl_ms)
                    ? tslab_map_touch(map->map, key.data, key.size, ttl_ms)
                    : -EINVAL;
        addon_bytes_end(&key);
        return map_changed(env, "map_touch", r);
}

static bool to_int64(napi_env env, napi_value value, int64_t *ret) {
        bool lossless;

        return napi_get_value_int64(env, value, ret) == napi_ok ||
               (napi_get_value_bigint_int64(env, value, ret, &lossless) == napi_ok && lossless);
}

/* add(key, delta, initial, ttlMs) -> sum; undefined where the value is no counter */
static napi_value map_add(napi_env env, napi_callback_info info) {
        int64_t delta, initial, sum;
        napi_value arguments[4];
        struct Bytes key;
        uint64_t ttl_ms;
        Map *map;
        int r;

        map = map_enter(env, info, "map_add", 4, arguments, &key);
        if (!map)
                return NULL;
        if (to_int64(env, arguments[1], &delta) && to_int64(env, arguments[2], &initial) &&
            addon_to_lifetime(env, arguments[3], &ttl_ms))
                r = tslab_map_add(map->map, key.data, key.size, delta, initial, ttl_ms, &sum);
        else
                r = -ERANGE;
        addon_bytes_end(&key);
        if (r == -EINVAL)
                return NULL;
        return r < 0 ? addon_fail(env, "map_add", r) : addon_int64(env, sum);
}

/* setCounter(key, number, ttlMs) -> number; undefined where the value is no counter */
static napi_value map_set_counter(napi_env env, napi_callback_info info) {
        struct tslab_map_add_options options = { .size = sizeof(options), .mode = TSLAB_MAP_ADD_SET };
        napi_value arguments[3];
        struct Bytes key;
        int64_t number;
        Map *map;
        int r;

        map = map_enter(env, info, "map_add_with", 3, arguments, &key);
        if (!map)
                return NULL;
        if (to_int64(env, arguments[1], &number) && addon_to_lifetime(env, arguments[2], &options.ttl_ms))
                r = tslab_map_add_with(map->map, key.data, key.size, number, &options, &number);
        else
                r = -ERANGE;
        addon_bytes_end(&key);
        if (r == -EINVAL)
                return NULL;
        return r < 0 ? addon_fail(env, "map_add_with", r) : addon_int64(env, number);
}

/* limit(key, perSecond, burst, cost) -> the milliseconds to wait; -1: the tokens were taken */
static napi_value map_limit(napi_env env, napi_callback_info info) {
        napi_value arguments[4];
        uint64_t retry_ms = 0;
        uint32_t burst, cost;
        struct Bytes key;
        double rate;
        Map *map;
        int r;

        map = map_enter(env, info, "map_limit", 4, arguments, &key);
        if (!map)
                return NULL;
        if (addon_to_double(env, arguments[1], &rate) && addon_to_uint32(env, arguments[2], &burst) &&
            addon_to_uint32(env, arguments[3], &cost))
                r = tslab_map_limit(map->map, key.data, key.size, rate, burst, cost, &retry_ms);
        else
                r = -EINVAL;
        addon_bytes_end(&key);
        return r < 0 ? addon_fail(env, "map_limit", r) : addon_number(env, r == 0 ? -1 : (double) retry_ms);
}

static void map_define(napi_env env, napi_value object, Map *map) {
        static const struct {
                const char *name;
                napi_callback call;
        } functions[] = {
                { "bind", map_bind },
                { "getInto", map_get_into },
                { "getIntoBytes", map_get_into_bytes },
                { "getSlab", map_get_slab },
                { "getSlabBytes", map_get_slab_bytes },
                { "find", map_find_value },
                { "getString", map_get_string },
                { "getStringBytes", map_get_string_bytes },
                { "getValue", map_get_value },
                { "put", map_put },
                { "putPlain", map_put_plain },
                { "remove", map_remove },
                { "touch", map_touch },
                { "tag", map_tag },
                { "invalidate", map_invalidate },
                { "add", map_add },
                { "setCounter", map_set_counter },
                { "limit", map_limit },
                { "claim", claim_make },
                { "extend", claim_extend },
                { "isClaimed", claim_stands },
                { "wait", claim_wait },
                { "cancel", claim_cancel },
                { "next", walk_next },
                { "clear", walk_clear },
                { "count", walk_count },
                { "stats", walk_stats },
        };

        for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
                addon_function(env, object, functions[i].name, functions[i].call, map);
        napi_set_named_property(env, object, "sizeMax",
                                addon_number(env, (double) tslab_map_size_max(map->map)));
}

static bool map_options(napi_env env, napi_value *arguments, struct tslab_map_options *ret) {
        uint32_t *numbers[] = { &ret->flags, &ret->value_max, &ret->stale_ms, &ret->evict };
        double limit;

        for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
                if (!addon_to_uint32(env, arguments[1 + i], numbers[i]))
                        return false;
        if (!addon_to_lifetime(env, arguments[5], &ret->ttl_ms) ||
            !addon_to_double(env, arguments[6], &limit))
                return false;
        ret->limit_bytes = (uint64_t) limit;
        return true;
}

/* openMap(name, flags, valueMax, staleMs, evict, ttlMs, limitBytes) */
napi_value map_open(napi_env env, napi_callback_info info) {
        struct tslab_map_options options = { .size = sizeof(options) };
        char name[4 * TSLAB_MAP_NAME_MAX + 8];
        napi_value arguments[7], object;
        size_t n = 7;
        Pool *pool;
        Map *map;
        int r;

        if (napi_get_cb_info(env, info, &n, arguments, NULL, (void **) &pool) != napi_ok ||
            napi_get_value_string_utf8(env, arguments[0], name, sizeof(name), &n) != napi_ok ||
            !map_options(env, arguments, &options) || napi_create_object(env, &object) != napi_ok)
                return addon_throw_type(env, "the name of a map is a string");
        map = calloc(1, sizeof(*map));
        r = !map ? -ENOMEM : !pool->shared ? -EBADF : tslab_map_open(&map->map, pool->pool, name, &options);
        if (r < 0) {
                free(map);
                return addon_fail(env, "map_open", r);
        }
        map->pool = pool;
        map->next = pool->maps;
        pool->maps = map;
        map_define(env, object, map);
        return object;
}
