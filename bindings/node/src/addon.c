/*
 * The module itself, and values of JavaScript as C has them.
 */
#include "addon.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASCII_MAX = 128 }; /* longer keys are not tried as UTF-16 */

/* Throws an exception of the package's own class. */
napi_value addon_fail(napi_env env, const char *call, int error) {
        napi_value make, arguments[2], undefined, exception;
        Env *own;

        if (napi_get_instance_data(env, (void **) &own) != napi_ok ||
            napi_get_reference_value(env, own->error, &make) != napi_ok ||
            napi_create_string_utf8(env, call, NAPI_AUTO_LENGTH, &arguments[0]) != napi_ok ||
            napi_create_int32(env, -error, &arguments[1]) != napi_ok ||
            napi_get_undefined(env, &undefined) != napi_ok ||
            napi_call_function(env, undefined, make, 2, arguments, &exception) != napi_ok)
                return NULL;
        napi_throw(env, exception);
        return NULL;
}

napi_value addon_throw_type(napi_env env, const char *text) {
        napi_throw_type_error(env, NULL, text);
        return NULL;
}

static int bytes_of_long_string(napi_env env, napi_value value, struct Bytes *ret) {
        size_t size;

        if (napi_get_value_string_utf8(env, value, NULL, 0, &size) != napi_ok)
                return -EINVAL;
        ret->held = malloc(size + 1);
        if (!ret->held)
                return -ENOMEM;
        if (napi_get_value_string_utf8(env, value, ret->held, size + 1, &ret->size) != napi_ok)
                return -EINVAL;
        ret->data = ret->held;
        return 0;
}

static int bytes_of_array(napi_env env, napi_value value, struct Bytes *ret) {
        napi_typedarray_type type;
        void *data;

        ret->held = NULL;
        if (napi_get_typedarray_info(env, value, &type, &ret->size, &data, NULL, NULL) != napi_ok ||
            type != napi_uint8_array)
                return -EINVAL;
        ret->data = data ? data : ret->near;
        return 0;
}

/*
 * The bytes of a string, as UTF-8, or of a Buffer or Uint8Array. The caller ends them with addon_bytes_end(), before
 * any JavaScript runs. -EINVAL: it is neither.
 */
int addon_bytes(napi_env env, napi_value value, struct Bytes *ret) {
        ret->held = NULL;
        if (napi_get_value_string_utf8(env, value, ret->near, sizeof(ret->near), &ret->size) == napi_ok) {
                ret->data = ret->near;
                /* It may be cut: a character has up to 4 bytes, and there is one for the end. */
                return ret->size < sizeof(ret->near) - 4 ? 0 : bytes_of_long_string(env, value, ret);
        }
        return bytes_of_array(env, value, ret);
}

/* As addon_bytes(), faster for the strings that most keys are: V8 copies them as UTF-16 in half the time of UTF-8. */
int addon_key(napi_env env, napi_value value, struct Bytes *ret) {
        char16_t wide[ASCII_MAX + 2];
        char16_t all = 0;

        ret->held = NULL;
        if (napi_get_value_string_utf16(env, value, wide, ASCII_MAX + 2, &ret->size) != napi_ok)
                return bytes_of_array(env, value, ret);
        if (ret->size > ASCII_MAX)
                return addon_bytes(env, value, ret);
        for (size_t i = 0; i < ret->size; i++) {
                ret->near[i] = (char) wide[i];
                all |= wide[i];
        }
        ret->data = ret->near;
        return all < 0x80 ? 0 : addon_bytes(env, value, ret);
}

void addon_bytes_end(struct Bytes *bytes) {
        free(bytes->held);
}

void addon_function(napi_env env, napi_value object, const char *name, napi_callback call, void *data) {
        napi_value function;

        if (napi_create_function(env, name, NAPI_AUTO_LENGTH, call, data, &function) == napi_ok)
                napi_set_named_property(env, object, name, function);
}

napi_value addon_number(napi_env env, double number) {
        napi_value value;

        return napi_create_double(env, number, &value) == napi_ok ? value : NULL;
}

/* A number, or a BigInt where a number would not be exact. */
napi_value addon_int64(napi_env env, int64_t number) {
        napi_value value;

        if (number >= -(INT64_C(1) << 53) && number <= INT64_C(1) << 53)
                return addon_number(env, (double) number);
        return napi_create_bigint_int64(env, number, &value) == napi_ok ? value : NULL;
}

bool addon_to_double(napi_env env, napi_value value, double *ret) {
        return napi_get_value_double(env, value, ret) == napi_ok;
}

/* lib/ has checked the range. */
bool addon_to_uint32(napi_env env, napi_value value, uint32_t *ret) {
        return napi_get_value_uint32(env, value, ret) == napi_ok;
}

/* 2^53 is no end: lib/time.js. */
bool addon_to_lifetime(napi_env env, napi_value value, uint64_t *ret) {
        double ms;

        if (napi_get_value_double(env, value, &ms) != napi_ok)
                return false;
        *ret = ms < 9007199254740992 ? (uint64_t) ms : TSLAB_MAP_TTL_NONE;
        return true;
}

bool addon_to_version(napi_env env, napi_value value, tslab_handle *ret) {
        bool lossless;

        return napi_get_value_bigint_uint64(env, value, ret, &lossless) == napi_ok && lossless;
}

static napi_value addon_version(napi_env env, napi_callback_info info) {
        napi_value value;

        (void) info;
        return napi_create_string_utf8(env, tslab_version(), NAPI_AUTO_LENGTH, &value) == napi_ok ? value
                                                                                                  : NULL;
}

/* The thread ends, by itself or because another one terminates it. No JavaScript of it runs any more. */
static void addon_on_end(napi_async_cleanup_hook_handle handle, void *data) {
        Env *own = data;

        (void) handle;
        own->is_ending = true;
        own->n_closing++;
        for (Pool *pool = own->pools; pool; pool = pool->next)
                pool_leave(pool);
        wait_closed(own);
}

static void addon_free(napi_env env, void *data, void *hint) {
        Env *own = data;
        Pool *pool;
        Map *map;

        (void) env;
        (void) hint;
        while ((pool = own->pools)) {
                own->pools = pool->next;
                while ((map = pool->maps)) {
                        pool->maps = map->next;
                        free(map);
                }
                free(pool);
        }
        free(own);
}

static bool addon_make_memory(napi_env env, napi_value exports, const char *name, size_t size, void **ret) {
        napi_value buffer;
        napi_ref reference;

        return napi_create_arraybuffer(env, size, ret, &buffer) == napi_ok &&
               napi_create_reference(env, buffer, 1, &reference) == napi_ok &&
               napi_set_named_property(env, exports, name, buffer) == napi_ok;
}

/* setup(makeError): before any other call. */
static napi_value addon_setup(napi_env env, napi_callback_info info) {
        napi_value make;
        size_t n = 1;
        Env *own;

        if (napi_get_cb_info(env, info, &n, &make, NULL, (void **) &own) == napi_ok)
                napi_create_reference(env, make, 1, &own->error);
        return NULL;
}

/* bindSlab(buffer): where getSlab() puts values. lib/ does so anew before that memory can go. */
static napi_value addon_bind_slab(napi_env env, napi_callback_info info) {
        napi_typedarray_type type;
        napi_value buffer;
        size_t n = 1;
        Env *own;

        if (napi_get_cb_info(env, info, &n, &buffer, NULL, (void **) &own) != napi_ok)
                return NULL;
        own->slab_size = 0;
        if (napi_get_typedarray_info(env, buffer, &type, &n, (void **) &own->slab, NULL, NULL) == napi_ok)
                own->slab_size = n;
        return NULL;
}

NAPI_MODULE_INIT() {
        Env *own = calloc(1, sizeof(*own));

        if (!own)
                return NULL;
        if (!addon_make_memory(env, exports, "info", sizeof(*own->info), (void **) &own->info) ||
            !addon_make_memory(env, exports, "scratch", SCRATCH_SIZE, (void **) &own->scratch) ||
            napi_set_instance_data(env, own, addon_free, NULL) != napi_ok) {
                free(own);
                return NULL;
        }
        napi_add_async_cleanup_hook(env, addon_on_end, own, &own->cleanup);
        addon_function(env, exports, "setup", addon_setup, own);
        addon_function(env, exports, "bindSlab", addon_bind_slab, own);
        addon_function(env, exports, "version", addon_version, own);
        addon_function(env, exports, "openPool", pool_open, own);
        return exports;
}
