/*
 * Calls on all entries of a map: next, clear, count, statistics.
 */
#include "addon.h"

#include <errno.h>
#include <string.h>

/*
 * next(cursor) -> whether there is one more entry. The scratch memory has its key and, unless Info has
 * TSLAB_MAP_KEY_ONLY, its value. The cursor is a Uint8Array of 16 bytes, zeros at first.
 */
napi_value walk_next(napi_env env, napi_callback_info info) {
        struct tslab_map_info about = { .size = sizeof(about) };
        struct tslab_map_cursor cursor;
        napi_value arguments[1], value;
        struct Bytes at;
        Map *map;
        int r;

        map = map_enter(env, info, "map_next", 1, arguments, &at);
        if (!map)
                return NULL;
        memcpy(&cursor, at.data, sizeof(cursor));
        do {
                r = tslab_map_next(map->map, &cursor, SCRATCH(map), SCRATCH_SIZE, &about);
        } while (r == -EUCLEAN); /* a damaged entry; the cursor is behind it */
        memcpy((void *) at.data, &cursor, sizeof(cursor));
        if (r < 0)
                return addon_fail(env, "map_next", r);
        if (r > 0)
                map_tell(map, &about);
        return napi_get_boolean(env, r > 0, &value) == napi_ok ? value : NULL;
}

/* clear() -> how many were deleted */
napi_value walk_clear(napi_env env, napi_callback_info info) {
        ssize_t n;
        Map *map;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &map) != napi_ok)
                return NULL;
        n = map->map ? tslab_map_expire(map->map, TSLAB_MAP_EPOCH_ALL) : -EBADF;
        return n < 0 ? addon_fail(env, "map_expire", (int) n) : addon_number(env, (double) n);
}

/* count() -> entries, by a walk */
napi_value walk_count(napi_env env, napi_callback_info info) {
        ssize_t n;
        Map *map;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &map) != napi_ok)
                return NULL;
        n = map->map ? tslab_map_count(map->map) : -EBADF;
        return n < 0 ? addon_fail(env, "map_count", (int) n) : addon_number(env, (double) n);
}

static void walk_set_count(napi_env env, napi_value object, const char *name, uint64_t number) {
        napi_value value = addon_number(env, (double) number);

        if (value)
                napi_set_named_property(env, object, name, value);
}

napi_value walk_stats(napi_env env, napi_callback_info info) {
        struct tslab_map_statistics stats = { .size = sizeof(stats) };
        napi_value object;
        Map *map;
        int r;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &map) != napi_ok ||
            napi_create_object(env, &object) != napi_ok)
                return NULL;
        r = map->map ? tslab_map_statistics(map->map, &stats) : -EBADF;
        if (r < 0)
                return addon_fail(env, "map_statistics", r);
        walk_set_count(env, object, "entries", stats.entries);
        walk_set_count(env, object, "bytes", stats.bytes);
        walk_set_count(env, object, "hits", stats.hits);
        walk_set_count(env, object, "misses", stats.misses);
        walk_set_count(env, object, "inserts", stats.inserts);
        walk_set_count(env, object, "deletes", stats.deletes);
        walk_set_count(env, object, "expirations", stats.expirations);
        walk_set_count(env, object, "evictions", stats.evictions);
        walk_set_count(env, object, "failures", stats.failures);
        return object;
}
