/*
 * Waits for claims: a waiter of the library for each pool, whose descriptor the event loop of the thread polls.
 */
#include "addon.h"

#include <errno.h>
#include <stdlib.h>

#include <uv.h>

/*
 * Waits that end take so much of one turn of the loop; those that are left come with the next. The continuation of one
 * may take longer.
 */
#define TURN_NS 500000

struct Waiter {
        uv_poll_t poll; /* first: libuv hands it to on_closed() */
        Env *env;
        napi_env napi;
        napi_ref on_wait; /* that of the pool */
        struct tslab_waiter *waiter;
        unsigned n_waits; /* the loop goes on while there are some */
};

/* The last handle of a thread that ends lets it end. */
void wait_closed(Env *env) {
        if (--env->n_closing == 0 && env->is_ending)
                napi_remove_async_cleanup_hook(env->cleanup);
}

static void wait_on_closed(uv_handle_t *handle) {
        Waiter *waiter = (Waiter *) handle;
        Env *env = waiter->env;

        free(waiter);
        wait_closed(env);
}

static void wait_tell(Waiter *waiter, uint64_t wait, int result) {
        napi_value object, function, arguments[2], exception;

        if (napi_create_object(waiter->napi, &object) != napi_ok ||
            napi_get_reference_value(waiter->napi, waiter->on_wait, &function) != napi_ok ||
            napi_create_double(waiter->napi, (double) wait, &arguments[0]) != napi_ok ||
            napi_create_int32(waiter->napi, result, &arguments[1]) != napi_ok)
                return;
        /* This also runs the continuations of promises. */
        if (napi_make_callback(waiter->napi, NULL, object, function, 2, arguments, NULL) ==
                    napi_pending_exception &&
            napi_get_and_clear_last_exception(waiter->napi, &exception) == napi_ok)
                napi_fatal_exception(waiter->napi, exception);
}

static void wait_on_readable(uv_poll_t *poll, int status, int events) {
        Waiter *waiter = (Waiter *) poll;
        uint64_t wait, end = uv_hrtime() + TURN_NS;
        napi_handle_scope scope;
        int result;

        (void) status;
        (void) events;
        /*
         * JavaScript may close the pool meanwhile: the memory of the waiter stays until the loop has gone on. The
         * descriptor is readable while there are more.
         */
        while (waiter->waiter && uv_hrtime() < end && tslab_waiter_next(waiter->waiter, &wait, &result) > 0) {
                if (--waiter->n_waits == 0)
                        uv_unref((uv_handle_t *) poll);
                if (napi_open_handle_scope(waiter->napi, &scope) != napi_ok)
                        return;
                wait_tell(waiter, wait, result);
                napi_close_handle_scope(waiter->napi, scope);
        }
}

static int wait_open(Pool *pool, napi_env env) {
        uv_loop_t *loop;
        Waiter *waiter;
        int r;

        if (napi_get_uv_event_loop(env, &loop) != napi_ok)
                return -EINVAL;
        waiter = calloc(1, sizeof(*waiter));
        if (!waiter)
                return -ENOMEM;
        waiter->env = pool->env;
        waiter->napi = env;
        waiter->on_wait = pool->on_wait;
        r = tslab_waiter_open(&waiter->waiter, pool->pool);
        if (r == 0) {
                r = uv_poll_init(loop, &waiter->poll, tslab_waiter_fd(waiter->waiter));
                if (r < 0)
                        tslab_waiter_close(waiter->waiter);
        }
        if (r < 0) {
                free(waiter);
                return r;
        }
        uv_unref((uv_handle_t *) &waiter->poll);
        pool->waiter = waiter;
        return uv_poll_start(&waiter->poll, UV_READABLE, wait_on_readable);
}

/* Begins a wait, whose end goes to the function on_wait of the pool. */
int wait_add(napi_env env, Pool *pool, struct tslab_map *map, const void *key, size_t key_size,
             tslab_handle version, uint32_t timeout_ms, uint64_t *ret_wait) {
        int r = 0;

        if (!pool->waiter)
                r = wait_open(pool, env);
        if (r == 0)
                r = tslab_waiter_add(pool->waiter->waiter, map, key, key_size, version, timeout_ms, ret_wait);
        if (r == 0 && pool->waiter->n_waits++ == 0)
                uv_ref((uv_handle_t *) &pool->waiter->poll);
        return r;
}

void wait_cancel(Pool *pool, uint64_t wait) {
        if (pool->waiter && tslab_waiter_cancel(pool->waiter->waiter, wait) == 0 &&
            --pool->waiter->n_waits == 0)
                uv_unref((uv_handle_t *) &pool->waiter->poll);
}

/* Before the maps and the pool are closed. */
void wait_end(Pool *pool) {
        Waiter *waiter = pool->waiter;

        if (!waiter)
                return;
        pool->waiter = NULL;
        pool->env->n_closing++;
        uv_poll_stop(&waiter->poll);
        waiter->waiter = tslab_waiter_close(waiter->waiter);
        uv_close((uv_handle_t *) &waiter->poll, wait_on_closed);
}
