/*
 * Claims of keys, and waits for their end.
 */
#include "addon.h"

#include <errno.h>

/* claim(key, limitMs) -> 0: the caller has it; EBUSY: another one, whose version Info has; EEXIST: there is a value */
napi_value claim_make(napi_env env, napi_callback_info info) {
        napi_value arguments[2];
        tslab_handle version = 0;
        struct Bytes key;
        uint32_t limit_ms;
        Map *map;
        int r;

        map = map_enter(env, info, "map_claim", 2, arguments, &key);
        if (!map)
                return NULL;
        r = addon_to_uint32(env, arguments[1], &limit_ms)
                    ? tslab_map_claim_for(map->map, key.data, key.size, TSLAB_EPOCH_CURRENT, limit_ms,
                                          &version)
                    : -EINVAL;
        addon_bytes_end(&key);
        if (r < 0 && r != -EBUSY && r != -EEXIST)
                return addon_fail(env, "map_claim", r);
        INFO(map)->version = version;
        return map_size(env, -r);
}

/* extend(key, limitMs, version) -> whether the claim stands, now with the version that Info has */
napi_value claim_extend(napi_env env, napi_callback_info info) {
        napi_value arguments[3];
        tslab_handle version = 0;
        struct Bytes key;
        uint32_t limit_ms;
        Map *map;
        int r;

        map = map_enter(env, info, "map_claim_extend", 3, arguments, &key);
        if (!map)
                return NULL;
        r = addon_to_uint32(env, arguments[1], &limit_ms) && addon_to_version(env, arguments[2], &version)
                    ? tslab_map_claim_extend(map->map, key.data, key.size, limit_ms, &version)
                    : -EINVAL;
        addon_bytes_end(&key);
        INFO(map)->version = version;
        return map_changed(env, "map_claim_extend", r);
}

/* isClaimed(key, version) -> whether that claim stands, or any with version 0; waits for nothing */
napi_value claim_stands(napi_env env, napi_callback_info info) {
        napi_value arguments[2], value;
        tslab_handle version = 0;
        struct Bytes key;
        Map *map;
        int r;

        map = map_enter(env, info, "map_wait", 2, arguments, &key);
        if (!map)
                return NULL;
        (void) addon_to_version(env, arguments[1], &version);
        r = tslab_map_wait(map->map, key.data, key.size, version, 0);
        addon_bytes_end(&key);
        if (r < 0 && r != -ETIMEDOUT)
                return addon_fail(env, "map_wait", r);
        return napi_get_boolean(env, r < 0, &value) == napi_ok ? value : NULL;
}

/* wait(key, version, timeoutMs) -> the number of the wait, for onWait() */
napi_value claim_wait(napi_env env, napi_callback_info info) {
        napi_value arguments[3];
        tslab_handle version = 0;
        uint64_t wait = 0;
        struct Bytes key;
        uint32_t timeout_ms;
        Map *map;
        int r;

        map = map_enter(env, info, "map_wait", 3, arguments, &key);
        if (!map)
                return NULL;
        (void) addon_to_version(env, arguments[1], &version);
        r = addon_to_uint32(env, arguments[2], &timeout_ms)
                    ? wait_add(env, map->pool, map->map, key.data, key.size, version, timeout_ms, &wait)
                    : -EINVAL;
        addon_bytes_end(&key);
        return r < 0 ? addon_fail(env, "map_wait", r) : addon_number(env, (double) wait);
}

/* cancel(wait) */
napi_value claim_cancel(napi_env env, napi_callback_info info) {
        napi_value argument;
        double wait;
        size_t n = 1;
        Map *map;

        if (napi_get_cb_info(env, info, &n, &argument, NULL, (void **) &map) == napi_ok &&
            addon_to_double(env, argument, &wait))
                wait_cancel(map->pool, (uint64_t) wait);
        return NULL;
}
