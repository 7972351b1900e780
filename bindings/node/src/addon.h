#pragma once
/*
 * The part of the package in C: calls of libtslab by Node-API, and no more than these. Classes, options and values are
 * in lib/.
 *
 * Each thread of Node has an Env of its own. A pool and a map of it are used by that thread alone; the struct tslab
 * behind a pool is shared by all threads of the process that open the pool.
 */
#define NAPI_VERSION 8
#include <node_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tslab.h>
#include <tslab_map.h>

typedef struct Env Env;
typedef struct Map Map;
typedef struct Pool Pool;
typedef struct Shared Shared;
typedef struct Waiter Waiter;

/* About the entry of the last call; lib/native.js reads it by views of the same names. */
typedef struct Info {
        uint64_t version;
        double ttl_left_ms; /* INFINITY: no end */
        double value_size;
        uint32_t flags; /* TSLAB_MAP_* */
        uint32_t kind; /* INFO_* of map_get_value() */
        uint32_t key_size;
        int32_t size; /* the value's, for calls that return none; or a reason why there is no value */
        uint32_t slab_at; /* where lib/ wants the next value in the slab */
        uint32_t slab_owner; /* the slab belongs to this copy of lib/ */
} Info;

enum { INFO_BYTES = 0, INFO_TEXT = 1, INFO_JSON = 2 };

enum { SCRATCH_SIZE = 64 << 10 };

/* The state of a thread, from the load of the addon until its end. */
struct Env {
        napi_ref error; /* function (call, errno) that makes an exception */
        napi_async_cleanup_hook_handle cleanup;
        Info *info;
        uint8_t *scratch; /* values on their way to JavaScript, SCRATCH_SIZE bytes */
        uint8_t *slab; /* where values of map_get_slab() stay, which lib/ keeps */
        size_t slab_size;
        Pool *pools;
        unsigned n_closing; /* handles of libuv that are being closed */
        bool is_ending;
};

struct Pool {
        Env *env;
        Pool *next;
        Shared *shared; /* NULL: closed */
        struct tslab *pool;
        Map *maps;
        Waiter *waiter;
        napi_ref on_wait; /* function (number, result) */
};

/* Stays until the thread ends, as functions of JavaScript may be called after the pool was closed. */
struct Map {
        Pool *pool;
        Map *next;
        struct tslab_map *map; /* NULL: closed */
        void *bound; /* the buffer of the last map_bind(), which the caller keeps */
        size_t bound_size;
};

struct Bytes {
        const void *data;
        size_t size;
        void *held; /* to be freed */
        char near[TSLAB_MAP_KEY_MAX + 8];
};

/* addon.c */
napi_value addon_fail(napi_env env, const char *call, int error);
napi_value addon_throw_type(napi_env env, const char *text);
int addon_bytes(napi_env env, napi_value value, struct Bytes *ret);
int addon_key(napi_env env, napi_value value, struct Bytes *ret);
void addon_bytes_end(struct Bytes *bytes);
void addon_function(napi_env env, napi_value object, const char *name, napi_callback call, void *data);
napi_value addon_number(napi_env env, double number);
napi_value addon_int64(napi_env env, int64_t number);
bool addon_to_double(napi_env env, napi_value value, double *ret);
bool addon_to_uint32(napi_env env, napi_value value, uint32_t *ret);
bool addon_to_lifetime(napi_env env, napi_value value, uint64_t *ret);
bool addon_to_version(napi_env env, napi_value value, tslab_handle *ret);

/* pool.c */
napi_value pool_open(napi_env env, napi_callback_info info);
void pool_leave(Pool *pool);

/* map.c */
#define SCRATCH(map) ((map)->pool->env->scratch)
#define INFO(map) ((map)->pool->env->info)

Map *map_enter(napi_env env, napi_callback_info info, const char *call, size_t n, napi_value *ret_arguments,
               struct Bytes *ret_key);
napi_value map_size(napi_env env, int32_t size);
void map_tell(Map *map, const struct tslab_map_info *from);
napi_value map_changed(napi_env env, const char *call, int r);
napi_value map_open(napi_env env, napi_callback_info info);

/* claim.c */
napi_value claim_make(napi_env env, napi_callback_info info);
napi_value claim_extend(napi_env env, napi_callback_info info);
napi_value claim_stands(napi_env env, napi_callback_info info);
napi_value claim_wait(napi_env env, napi_callback_info info);
napi_value claim_cancel(napi_env env, napi_callback_info info);

/* walk.c */
napi_value walk_next(napi_env env, napi_callback_info info);
napi_value walk_clear(napi_env env, napi_callback_info info);
napi_value walk_count(napi_env env, napi_callback_info info);
napi_value walk_stats(napi_env env, napi_callback_info info);

/* wait.c */
int wait_add(napi_env env, Pool *pool, struct tslab_map *map, const void *key, size_t key_size,
             tslab_handle version, uint32_t timeout_ms, uint64_t *ret_wait);
void wait_cancel(Pool *pool, uint64_t wait);
void wait_end(Pool *pool);
void wait_closed(Env *env);
