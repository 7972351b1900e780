/*
 * Pools. Threads of a process that open the same one share it: it is opened once, and closed with the last of them.
 */
#include "addon.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct Shared {
        Shared *next;
        struct tslab *pool;
        char *name; /* NULL: a private pool, which is in no list */
        uint32_t flags;
        unsigned n_users; /* pools of threads, and looks that are on their way */
};

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static Shared *shared_pools;

static void shared_remove(Shared *shared) {
        for (Shared **at = &shared_pools; *at; at = &(*at)->next)
                if (*at == shared) {
                        *at = shared->next;
                        return;
                }
}

static Shared *shared_find(const char *name, uint32_t flags) {
        for (Shared *shared = shared_pools; shared; shared = shared->next)
                if (strcmp(shared->name, name) == 0 && shared->flags == flags)
                        return shared;
        return NULL;
}

static void shared_unref(Shared *shared) {
        bool is_last;

        pthread_mutex_lock(&shared_lock);
        is_last = --shared->n_users == 0;
        if (is_last && shared->name)
                shared_remove(shared);
        pthread_mutex_unlock(&shared_lock);
        if (!is_last)
                return;
        tslab_close(shared->pool);
        free(shared->name);
        free(shared);
}

static int shared_new(Shared **ret, const char *name, const struct tslab_options *options) {
        Shared *shared = calloc(1, sizeof(*shared));
        int r;

        if (!shared)
                return -ENOMEM;
        shared->flags = options->flags;
        shared->n_users = 1;
        shared->name = name ? strdup(name) : NULL;
        if (name && !shared->name)
                r = -ENOMEM;
        else if (name)
                r = tslab_open(&shared->pool, *name ? name : NULL, options);
        else
                r = tslab_create(&shared->pool, options);
        if (r < 0) {
                free(shared->name);
                free(shared);
                return r;
        }
        *ret = shared;
        return 0;
}

/*
 * The pool of that name, which is opened where no thread has it, or where a new daemon has taken the old one's place.
 * The lock is held meanwhile: other threads want the same pool mostly.
 */
static int shared_ref(Shared **ret, const char *name, const struct tslab_options *options) {
        Shared *shared;
        int r = 0;

        if (!name)
                return shared_new(ret, name, options);
        pthread_mutex_lock(&shared_lock);
        shared = shared_find(name, options->flags);
        if (shared && tslab_stale(shared->pool)) {
                shared_remove(shared);
                free(shared->name);
                shared->name = NULL;
                shared = NULL;
        }
        if (shared) {
                shared->n_users++;
        } else {
                r = shared_new(&shared, name, options);
                if (r == 0) {
                        shared->next = shared_pools;
                        shared_pools = shared;
                }
        }
        pthread_mutex_unlock(&shared_lock);
        if (r == 0)
                *ret = shared;
        return r;
}

/* Closes it for this thread. The maps' functions stay callable, and throw. */
void pool_leave(Pool *pool) {
        Shared *shared = pool->shared;

        if (!shared)
                return;
        wait_end(pool);
        for (Map *map = pool->maps; map; map = map->next)
                map->map = tslab_map_close(map->map);
        pool->shared = NULL;
        pool->pool = NULL;
        shared_unref(shared);
}

static napi_value pool_close(napi_env env, napi_callback_info info) {
        Pool *pool;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &pool) == napi_ok)
                pool_leave(pool);
        return NULL;
}

/* A look after the daemon, which may take a while, in a thread of libuv. */
typedef struct Look {
        napi_async_work work;
        napi_deferred deferred;
        Shared *shared;
        bool is_stale;
} Look;

static void look_work(napi_env env, void *data) {
        Look *look = data;

        (void) env;
        look->is_stale = tslab_stale(look->shared->pool);
}

static void look_done(napi_env env, napi_status status, void *data) {
        Look *look = data;
        napi_value value;

        (void) status;
        if (napi_get_boolean(env, look->is_stale, &value) == napi_ok)
                napi_resolve_deferred(env, look->deferred, value);
        napi_delete_async_work(env, look->work);
        shared_unref(look->shared);
        free(look);
}

/* look() -> promise of whether the daemon has another arena. */
static napi_value pool_look(napi_env env, napi_callback_info info) {
        napi_value promise, name;
        Look *look;
        Pool *pool;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &pool) != napi_ok)
                return NULL;
        if (!pool->shared)
                return addon_fail(env, "stale", -EBADF);
        look = calloc(1, sizeof(*look));
        if (!look)
                return addon_fail(env, "stale", -ENOMEM);
        if (napi_create_promise(env, &look->deferred, &promise) != napi_ok ||
            napi_create_string_utf8(env, "tslab.look", NAPI_AUTO_LENGTH, &name) != napi_ok ||
            napi_create_async_work(env, NULL, name, look_work, look_done, look, &look->work) != napi_ok) {
                free(look);
                return NULL;
        }
        look->shared = pool->shared;
        pthread_mutex_lock(&shared_lock);
        look->shared->n_users++;
        pthread_mutex_unlock(&shared_lock);
        napi_queue_async_work(env, look->work);
        return promise;
}

/* Opens the next epoch where the current one is closed to allocation, as by an operator: whether this call did. */
static napi_value pool_leave_closed(napi_env env, napi_callback_info info) {
        struct tslab_epoch_info epoch = { .size = sizeof(epoch) };
        uint32_t current;
        napi_value value;
        Pool *pool;
        int r;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &pool) != napi_ok)
                return NULL;
        if (!pool->shared)
                return addon_fail(env, "epoch_advance_from", -EBADF);
        r = tslab_epoch_current(pool->pool, &current);
        if (r == 0)
                r = tslab_epoch_info(pool->pool, current, &epoch);
        if (r == 0 && epoch.state != TSLAB_EPOCH_OPEN)
                r = tslab_epoch_advance_from(pool->pool, current, NULL);
        if (r < 0 && r != -ESTALE && r != -EBUSY)
                return addon_fail(env, "epoch_advance_from", r);
        return napi_get_boolean(env, r == 1, &value) == napi_ok ? value : NULL;
}

static void pool_count(napi_env env, napi_value object, const char *name, uint64_t number) {
        napi_value value = addon_number(env, (double) number);

        if (value)
                napi_set_named_property(env, object, name, value);
}

static napi_value pool_stats(napi_env env, napi_callback_info info) {
        struct tslab_stats stats = { .size = sizeof(stats) };
        napi_value object;
        Pool *pool;
        int r;

        if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **) &pool) != napi_ok ||
            napi_create_object(env, &object) != napi_ok)
                return NULL;
        r = pool->shared ? tslab_stats(pool->pool, &stats) : -EBADF;
        if (r < 0)
                return addon_fail(env, "stats", r);
        pool_count(env, object, "capacity", tslab_capacity(pool->pool));
        pool_count(env, object, "liveObjects", stats.live_objects);
        pool_count(env, object, "liveBytes", stats.live_bytes);
        pool_count(env, object, "cachedObjects", stats.cached_objects);
        pool_count(env, object, "committedBytes", stats.committed_bytes);
        pool_count(env, object, "retainedBytes", stats.retained_bytes);
        pool_count(env, object, "allocs", stats.allocs);
        pool_count(env, object, "frees", stats.frees);
        pool_count(env, object, "failures", stats.failures);
        pool_count(env, object, "threads", stats.threads);
        return object;
}

/* openPool(name, isReader, timeoutMs, size, onWait): the name is null for a private pool, and '' for the default. */
napi_value pool_open(napi_env env, napi_callback_info info) {
        struct tslab_options options = { .size = sizeof(options) };
        napi_value arguments[5], object;
        char name[4096];
        napi_valuetype type;
        double arena_bytes;
        bool is_reader;
        size_t n = 5;
        Pool *pool;
        Env *own;
        int r;

        if (napi_get_cb_info(env, info, &n, arguments, NULL, (void **) &own) != napi_ok ||
            napi_typeof(env, arguments[0], &type) != napi_ok ||
            (type == napi_string &&
             napi_get_value_string_utf8(env, arguments[0], name, sizeof(name), &n) != napi_ok) ||
            napi_get_value_bool(env, arguments[1], &is_reader) != napi_ok ||
            !addon_to_uint32(env, arguments[2], &options.timeout_ms) ||
            !addon_to_double(env, arguments[3], &arena_bytes) || napi_create_object(env, &object) != napi_ok)
                return addon_throw_type(env, "open() takes a name and options");
        options.flags = is_reader ? TSLAB_READER : 0;
        options.arena_bytes = (uint64_t) arena_bytes;
        pool = calloc(1, sizeof(*pool));
        r = pool ? shared_ref(&pool->shared, type == napi_string ? name : NULL, &options) : -ENOMEM;
        if (r < 0) {
                free(pool);
                return addon_fail(env, "open", r);
        }
        napi_create_reference(env, arguments[4], 1, &pool->on_wait);
        pool->env = own;
        pool->pool = pool->shared->pool;
        pool->next = own->pools;
        own->pools = pool;
        addon_function(env, object, "close", pool_close, pool);
        addon_function(env, object, "look", pool_look, pool);
        addon_function(env, object, "leaveClosed", pool_leave_closed, pool);
        addon_function(env, object, "stats", pool_stats, pool);
        addon_function(env, object, "openMap", map_open, pool);
        return object;
}
