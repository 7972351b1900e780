"""tslab._native, by which the package calls libtslab. setup.py builds it with the library that CFLAGS and LDFLAGS name, or
else pkg-config; `build_native.py FILE` writes its C source."""

import ast
import os
import shutil
import subprocess
import sys

from cffi import FFI


def members(name):
    """The members of a struct that tslab/stats.py has as a class: each counter stands there once."""
    with open(os.path.join(os.path.dirname(__file__), 'tslab/stats.py'), encoding='utf-8') as file:
        classes = {node.name: node for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)}
    names = [node.target.id for node in classes[name].body if isinstance(node, ast.AnnAssign)]
    return '\n'.join(f'        {"uint32_t" if name in ("threads", "is_shared") else "uint64_t"} {name};' for name in names)


def link_options():
    """For set_source(), as setup.py needs them."""
    library = os.environ.get('TSLAB_LIBRARY')
    if library:
        # setup.py puts it beside the module. An RPATH, unlike a RUNPATH, is also where the libraries of these are found.
        return {'extra_link_args': [library, '-Wl,-rpath,$ORIGIN', '-Wl,--disable-new-dtags']}
    if __name__ == '__main__' or not shutil.which('pkg-config'):
        return {'libraries': ['tslab']}
    found = subprocess.run(['pkg-config', '--cflags', '--libs', 'tslab'], check=False, stdout=subprocess.PIPE, text=True).stdout.split()
    # pkg-config names only folders in which neither the compiler nor the loader looks by itself.
    folders = [word[2:] for word in found if word.startswith('-L')]
    return {'libraries': ['tslab'], 'include_dirs': [word[2:] for word in found if word.startswith('-I')],
            'library_dirs': folders, 'runtime_library_dirs': folders}


builder = FFI()

builder.cdef('''
typedef uint64_t tslab_handle;
struct tslab;
struct tslab_domain;
struct tslab_map;

#define TSLAB_EPOCH_CURRENT ...
#define TSLAB_CACHE_ADAPTIVE ...
#define TSLAB_CACHE_ON ...
#define TSLAB_CACHE_OFF ...
#define TSLAB_READER ...
#define TSLAB_CLOSE_REVOKE ...
#define TSLAB_CLOSE_OLDER ...
#define TSLAB_EPOCH_OPEN ...
#define TSLAB_EPOCH_CLOSING ...
#define TSLAB_EPOCH_DRAINED ...
#define TSLAB_DOMAIN_AUTO_CLOSE ...
#define TSLAB_MAP_EPOCH_ALL ...
#define TSLAB_MAP_EXISTING ...
#define TSLAB_MAP_EXCLUSIVE ...
#define TSLAB_MAP_COUNTER ...
#define TSLAB_MAP_STALE ...
#define TSLAB_MAP_TAGGED ...
#define TSLAB_MAP_KEY_ONLY ...
#define TSLAB_MAP_EVICT_NEVER ...
#define TSLAB_MAP_EVICT_SIEVE ...
#define TSLAB_MAP_TTL_DEFAULT ...
#define TSLAB_MAP_TTL_MAX ...
#define TSLAB_MAP_TTL_NONE ...
#define TSLAB_MAP_PUT ...
#define TSLAB_MAP_ADD_SET ...
#define TSLAB_MAP_INSERT ...
#define TSLAB_MAP_UPDATE ...
#define TSLAB_MAP_REPLACE ...

struct tslab_options {
        size_t size;
        uint32_t flags;
        uint32_t cache;
        uint32_t timeout_ms;
        const char *comm;
        uint64_t arena_bytes;
        uint64_t retain_bytes;
        uint32_t n_threads;
        uint32_t n_epochs;
        uint32_t n_classes;
        uint32_t classes[...];
        ...;
};

struct tslab_epoch_info {
        size_t size;
        uint32_t epoch;
        uint32_t state;
        bool current;
        bool reserved;
        char label[...];
        uint64_t opened_usec;
        uint64_t closed_usec;
        uint64_t reclaimed_bytes;
        ...;
};

struct tslab_stats {
        size_t size;
''' + members('Stats') + '''
        ...;
};

struct tslab_count {
        size_t size;
        uint64_t slabs, live_objects, live_bytes;
        ...;
};

struct tslab_thread_stats {
        size_t size;
''' + members('ThreadStats') + '''
        ...;
};

struct tslab_map_options {
        size_t size;
        uint32_t flags;
        uint64_t ttl_ms;
        uint64_t limit_bytes;
        uint32_t value_max;
        uint32_t stale_ms;
        uint32_t evict;
        ...;
};

struct tslab_map_statistics {
        size_t size;
        uint64_t entries, bytes, hits, misses, inserts, deletes, expirations, evictions, failures;
        ...;
};

struct tslab_map_cursor {
        ...;
};

struct tslab_map_info {
        size_t size;
        uint32_t epoch, flags;
        tslab_handle version;
        uint64_t ttl_left_ms, value_size;
        uint32_t accept, key_size;
        tslab_handle place;
        ...;
};

const char *tslab_version(void);
int tslab_open(struct tslab **ret, const char *pool, const struct tslab_options *options);
int tslab_create(struct tslab **ret, const struct tslab_options *options);
bool tslab_stale(struct tslab *pool);
size_t tslab_size_max(struct tslab *pool);
uint64_t tslab_capacity(struct tslab *pool);
int tslab_free(struct tslab *pool, tslab_handle handle);
ssize_t tslab_read(struct tslab *pool, tslab_handle handle, void *buffer, size_t size);
ssize_t tslab_alloc_batch(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handles, size_t n);
ssize_t tslab_free_batch(struct tslab *pool, const tslab_handle *handles, size_t n);
int tslab_publish(struct tslab *pool, tslab_handle handle);
int tslab_pending_share(struct tslab *pool, tslab_handle handle);
int tslab_drain(struct tslab *pool);
int tslab_reap(struct tslab *pool);
int tslab_control_owner(struct tslab *pool);
int tslab_root_get(struct tslab *pool, const char *name, tslab_handle *ret_handle);
int tslab_root_set(struct tslab *pool, const char *name, tslab_handle expected, tslab_handle handle);
int tslab_epoch_current(struct tslab *pool, uint32_t *ret_epoch);
int tslab_epoch_info(struct tslab *pool, uint32_t epoch, struct tslab_epoch_info *info);
int tslab_epoch_advance(struct tslab *pool, uint32_t *ret_epoch);
int tslab_epoch_advance_from(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch);
int tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch);
int tslab_epoch_lease(struct tslab *pool, const char *label, uint32_t *ret_epoch);
int tslab_epoch_label(struct tslab *pool, uint32_t epoch, const char *label);
int tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags);
int tslab_epoch_ref(struct tslab *pool, uint32_t epoch);
int tslab_epoch_unref(struct tslab *pool, uint32_t epoch);
int tslab_epoch_refs(struct tslab *pool, uint32_t epoch);

int tslab_domain_open(struct tslab_domain **ret, struct tslab *pool, uint32_t epoch, uint32_t flags);
struct tslab_domain *tslab_domain_close(struct tslab_domain *domain);
int tslab_domain_leave(struct tslab_domain *domain);
uint32_t tslab_domain_epoch(const struct tslab_domain *domain);

int tslab_stats(struct tslab *pool, struct tslab_stats *stats);
int tslab_class_stats(struct tslab *pool, size_t size, struct tslab_count *ret);
int tslab_epoch_stats(struct tslab *pool, uint32_t epoch, struct tslab_count *ret);
int tslab_thread_stats(struct tslab *pool, struct tslab_thread_stats *stats);

int tslab_map_remove(struct tslab *pool, const char *name);
int tslab_map_open(struct tslab_map **ret, struct tslab *pool, const char *name,
                   const struct tslab_map_options *options);
struct tslab_map *tslab_map_close(struct tslab_map *map);
size_t tslab_map_size_max(struct tslab_map *map);
ssize_t tslab_map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer, size_t buffer_size,
                      tslab_handle *ret_version);
int tslab_map_touch(struct tslab_map *map, const void *key, size_t key_size, uint64_t ttl_ms);
int tslab_map_add(struct tslab_map *map, const void *key, size_t key_size, int64_t delta, int64_t initial,
                  uint64_t ttl_ms, int64_t *ret_value);
struct tslab_map_add_options {
        size_t size;
        uint64_t ttl_ms;
        int64_t initial;
        uint32_t mode;
        ...;
};
int tslab_map_add_with(struct tslab_map *map, const void *key, size_t key_size, int64_t value,
                       const struct tslab_map_add_options *options, int64_t *ret_value);
int tslab_map_limit(struct tslab_map *map, const void *key, size_t key_size, double per_second, uint32_t burst,
                    uint32_t cost, uint64_t *ret_retry_ms);
int tslab_map_delete(struct tslab_map *map, const void *key, size_t key_size);
int tslab_map_delete_version(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version);
int tslab_map_wait(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                   uint32_t timeout_ms);
ssize_t tslab_map_expire(struct tslab_map *map, uint32_t epoch);
int tslab_map_next(struct tslab_map *map, struct tslab_map_cursor *cursor, void *buffer, size_t buffer_size,
                   struct tslab_map_info *ret_info);
int tslab_map_statistics(struct tslab_map *map, struct tslab_map_statistics *ret);
ssize_t tslab_map_count(struct tslab_map *map);

struct tslab_near;
int tslab_near_open(struct tslab_near **ret, struct tslab *pool, const char *name,
                    const struct tslab_map_options *options);
struct tslab_near *tslab_near_close(struct tslab_near *near);
struct tslab_near_claim { tslab_handle copy, last, cover; uint32_t flags; ...; };
int tslab_near_fill(struct tslab_near *near, const void *key, size_t key_size, const struct tslab_near_claim *claim,
                    const char *server, const void *value, size_t value_size, uint64_t ttl_ms);
int tslab_near_give_up(struct tslab_near *near, const void *key, size_t key_size, const struct tslab_near_claim *claim);
int tslab_near_keep_last(struct tslab_near *near);
int tslab_near_last(struct tslab_near *near, const void *key, size_t key_size, void **ret_value, size_t *ret_size);
void free(void *memory);
int tslab_near_drop(struct tslab_near *near, const void *key, size_t key_size);

void close_opened(struct tslab **opened);

int enter_domain(struct tslab_domain *domain, bool *ret_entered);
int leave_domain(struct tslab_domain *domain, bool *ret_left);

struct near_found { ssize_t size; struct tslab_near_claim claim; };
struct near_found near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer, size_t buffer_size,
                           uint32_t wait_ms);

struct found { int error; tslab_handle handle; void *object; size_t size; };
int alloc_object(struct tslab *pool, size_t size, uint32_t epoch, bool pending, struct found *ret);
struct found get_object(struct tslab *pool, tslab_handle handle);
int put_object(struct tslab *pool, const void *data, size_t size, uint32_t epoch, struct found *ret);

struct value { ssize_t size; size_t whole; uint32_t epoch, flags; uint64_t ttl_left_ms; tslab_handle version; };
struct value get_value(struct tslab_map *map, const void *key, size_t key_size, uint32_t accept, void *buffer,
                       size_t buffer_size);
struct value take_value(struct tslab_map *map, const void *key, size_t key_size, uint32_t accept, void *buffer,
                        size_t buffer_size);
ssize_t get_plain(struct tslab_map *map, const void *key, size_t key_size, void *buffer, size_t buffer_size);
int put_value(struct tslab_map *map, uint32_t mode, const void *key, size_t key_size, tslab_handle version,
              const void *value, size_t value_size, uint32_t epoch, uint64_t ttl_ms, const tslab_handle *tags,
              size_t n_tags);
int tslab_map_tag(struct tslab_map *map, const void *tag, size_t tag_size, uint32_t epoch, tslab_handle *ret_tag);
int tslab_map_invalidate(struct tslab_map *map, const void *tag, size_t tag_size);

struct claim { tslab_handle version; bool mine; int pid; };
int claim_key(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch, uint32_t limit_ms,
              struct claim *ret);
int tslab_map_claim_extend(struct tslab_map *map, const void *key, size_t key_size, uint32_t limit_ms,
                           tslab_handle *version);
''')

# A call with several results returns them as one struct: Python would have to allocate a box for each of them. Where the
# result must be given back, the caller makes the struct before the call: a signal handler may raise an exception between the
# return of the call and the store of a result in Python.
builder.set_source('tslab._native', '''
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tslab.h>
#include <tslab_map.h>
#include <tslab_near.h>

static void close_opened(struct tslab **opened) {
        (void) tslab_close(*opened);
}

static int enter_domain(struct tslab_domain *domain, bool *ret_entered) {
        int r = tslab_domain_enter(domain);

        *ret_entered = r == 0;
        return r;
}

/* Errors of the close that follows do not keep the thread inside. */
static int leave_domain(struct tslab_domain *domain, bool *ret_left) {
        int r = tslab_domain_leave(domain);

        *ret_left = r != -EINVAL;
        return r;
}

struct near_found { ssize_t size; struct tslab_near_claim claim; };

static struct near_found near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                                  size_t buffer_size, uint32_t wait_ms) {
        struct near_found f;

        f.size = tslab_near_get(near, key, key_size, buffer, buffer_size, wait_ms, &f.claim);
        return f;
}

struct found { int error; tslab_handle handle; void *object; size_t size; };

/* On failure ret->handle stays 0. */
static int alloc_object(struct tslab *pool, size_t size, uint32_t epoch, bool pending, struct found *ret) {
        ret->size = size;
        return (pending ? tslab_alloc_pending : tslab_alloc)(pool, size, epoch, &ret->handle, &ret->object);
}

static struct found get_object(struct tslab *pool, tslab_handle handle) {
        struct found f = { .handle = handle };

        f.error = tslab_get(pool, handle, &f.object, &f.size);
        return f;
}

/* In one call, so that no exception comes between allocating and publishing. */
static int put_object(struct tslab *pool, const void *data, size_t size, uint32_t epoch, struct found *ret) {
        struct found f = { 0 };
        int r = alloc_object(pool, size, epoch, true, &f);

        if (r < 0)
                return r;
        memcpy(f.object, data, size);
        r = tslab_publish(pool, f.handle);
        if (r < 0)
                (void) tslab_free(pool, f.handle);
        else
                *ret = f;
        return r;
}

struct value { ssize_t size; size_t whole; uint32_t epoch, flags; uint64_t ttl_left_ms; tslab_handle version; };

static struct value get_value(struct tslab_map *map, const void *key, size_t key_size, uint32_t accept,
                              void *buffer, size_t buffer_size) {
        struct tslab_map_info info = { .size = sizeof(info), .accept = accept };
        ssize_t n;

        n = tslab_map_get_with(map, key, key_size, buffer, buffer_size, &info);
        return (struct value){ n, info.value_size, info.epoch, info.flags, info.ttl_left_ms, info.version };
}

/* A value that was put. -EMSGSIZE: a counter, or larger than the buffer; get_value() tells. */
static ssize_t get_plain(struct tslab_map *map, const void *key, size_t key_size, void *buffer, size_t buffer_size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        ssize_t n;

        n = tslab_map_get_with(map, key, key_size, buffer, buffer_size, &info);
        return n >= 0 && (info.flags & TSLAB_MAP_COUNTER) ? -EMSGSIZE : n;
}

static struct value take_value(struct tslab_map *map, const void *key, size_t key_size, uint32_t accept,
                               void *buffer, size_t buffer_size) {
        struct tslab_map_info info = { .size = sizeof(info), .accept = accept };
        ssize_t n;

        n = tslab_map_take(map, key, key_size, buffer, buffer_size, &info);
        return (struct value){ n, info.value_size, info.epoch, info.flags, info.ttl_left_ms, info.version };
}

static int put_value(struct tslab_map *map, uint32_t mode, const void *key, size_t key_size, tslab_handle version,
                     const void *value, size_t value_size, uint32_t epoch, uint64_t ttl_ms, const tslab_handle *tags,
                     size_t n_tags) {
        struct tslab_map_put_options options = {
                .size = sizeof(options), .epoch = epoch, .ttl_ms = ttl_ms, .mode = mode, .version = version,
                .tags = tags, .n_tags = (uint32_t) n_tags,
        };

        return tslab_map_put_with(map, key, key_size, value, value_size, &options);
}

struct claim { tslab_handle version; bool mine; int pid; };

static int claim_key(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch, uint32_t limit_ms,
                     struct claim *ret) {
        int r = tslab_map_claim_for(map, key, key_size, epoch, limit_ms, &ret->version);

        ret->mine = r == 0;
        ret->pid = getpid();
        return r;
}
''', **link_options())

if __name__ == '__main__':
    builder.emit_c_code(sys.argv[1])
