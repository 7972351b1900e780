#pragma once
/* A map that is open in this process. It has nothing that a fork would have to repair. */
#include <tslab_map.h>

#include "libclient/pool/enter.h"
#include "libclient/options.h"
#include "shm/map/entry/map.h"

struct tslab_map {
        struct tslab *pool;
        ShmTrie trie;
};

/* False: larger than any key there can be. */
bool map_key_init(ShmMapKey *key, const struct tslab_map *map, const void *bytes, size_t size);

/*
 * Enters the pool for a change of one key, until map_end_change(). `absent`: the error to return if there can be no
 * such key. -EROFS, errors of pool_enter().
 */
int map_begin_change(struct tslab_map *map, ShmMapKey *key, const void *bytes, size_t size, int absent,
                     ThreadState **ret);
static inline void map_end_change(struct tslab_map *map, ThreadState *thread) {
        pool_leave(map->pool, thread);
        pool_run_deferred(map->pool);
        /* ORDER: rlx; seen now or at the next call. */
        if (shm_load_rlx(&map->pool->arena.header->expiry.first) != 0)
                map->pool->host->expires(map->pool);
}

/* Deletes a key, or only its value of version `expected`. Errors of tslab_map_delete(). */
int map_remove_key(struct tslab_map *map, const void *key, size_t key_size, uint64_t expected);

bool map_make_room_slow(struct tslab_map *map, int r, HostRetry *retry);

/*
 * Called when a change has failed. True: it found no memory, or no room in its map, and may find some now: try again.
 * If not, the failure is counted.
 */
static inline bool map_make_room(struct tslab_map *map, int r, HostRetry *retry) {
        return __builtin_expect(r == -ENOMEM || r == -ENOSPC, 0) && map_make_room_slow(map, r, retry);
}

/* Errors of tslab_map_get(). *ret_view is set also with -EMSGSIZE. */
ssize_t map_get_key(struct tslab_map *map, const ShmMapKey *key, void *buffer, size_t buffer_size,
                    ShmMapView *ret_view);

/* -EINVAL. Of the options alone: the value is still to come. */
int map_put_init(ShmMapPut *ret, const struct tslab_map_put_options *options);
/* Errors of tslab_map_put_with(). The pool is no reader's. */
int map_put_key(struct tslab_map *map, const ShmMapKey *key, ShmMapPut *put, size_t value_size);
int map_put(struct tslab_map *map, const void *key, size_t key_size, ShmMapPut *put, size_t value_size);
