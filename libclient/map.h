#pragma once
/* A map that is open in this process. It has nothing that a fork would have to repair. */
#include <errno.h>

#include <tslab_map.h>

#include <string.h>

#include "libclient/enter.h"
#include "shm/map/entry/map.h"

int map_options_load_slow(void *ret, size_t size, const void *options);

/*
 * Copies options of any version to `ret`, a struct of `size` bytes that contains them. NULL: there are none. -EINVAL.
 */
static inline int map_options_load(void *ret, size_t size, const void *options) {
        size_t given;

        if (!options)
                return 0;
        memcpy(&given, options, sizeof(given));
        if (__builtin_expect(given != size, 0))
                return map_options_load_slow(ret, size, options);
        /* The size is a constant here, so the compiler copies without a call. */
        memcpy(ret, options, size);
        return 0;
}

bool map_options_are_sound(const struct tslab_map_options *options, const ShmArena *arena);

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
        pool_run_expiry(map->pool);
}

/* The attempts to find memory for one change. Begin with zeros. */
typedef struct MapRetry {
        unsigned n_slices; /* in which expired entries were deleted */
        uint32_t hand; /* the slab at which the next one begins, if others do control work */
        bool asked; /* for the caches of threads */
} MapRetry;

bool map_make_room_slow(struct tslab_map *map, int r, MapRetry *retry);

/*
 * Called when a change has failed. True: it found no memory, or no room in its map, and may find some now: try again.
 * If not, the failure is counted.
 */
static inline bool map_make_room(struct tslab_map *map, int r, MapRetry *retry) {
        return __builtin_expect(r == -ENOMEM || r == -ENOSPC, 0) && map_make_room_slow(map, r, retry);
}

#define MAP_SLEEP_USEC                                                                                       \
        20000 /* between looks at a claim, where a daemon wakes the waiters of a process that died */
#define MAP_SLEEP_ALONE_USEC 4000 /* where nobody does */

/*
 * Looks at a claim. 1: it stands, and *ret_claim tells whose it is; 0: it does not; -EIDRM. With a word of
 * shm_wait_word(), *ret_value is the value to sleep with while it stands.
 */
int map_look_at_claim(struct tslab_map *map, const ShmMapKey *key, uint64_t version, uint32_t *word,
                      uint32_t *ret_value, ShmClaim *ret_claim);

/* Errors of tslab_map_get(). *ret_view is set also with -EMSGSIZE. */
ssize_t map_get_key(struct tslab_map *map, const ShmMapKey *key, void *buffer, size_t buffer_size,
                    ShmMapView *ret_view);

/* -EINVAL. Of the options alone: the value is still to come. */
int map_put_init(ShmMapPut *ret, const struct tslab_map_put_options *options);
/* Errors of tslab_map_put_with(). The pool is no reader's. */
int map_put_key(struct tslab_map *map, const ShmMapKey *key, ShmMapPut *put, size_t value_size);
int map_put(struct tslab_map *map, const void *key, size_t key_size, ShmMapPut *put, size_t value_size);
/*
 * Deletes a value or a claim by its version. The stale value of a claim stays. -ENOMEM: malloc() failed, nothing was
 * changed. Errors of tslab_map_delete_version().
 */
int map_give_up(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version);
/* As tslab_map_claim(), of a claim that another process may end, as near caches' are: its thread may wait for it. */
int map_claim_for_news(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                       tslab_handle *ret_version);
/*
 * Fulfils a claim with a value from outside of the pool: in the claim's epoch, and with a lifetime that counts from the
 * claim. -EAGAIN: the claim is no more, or the lifetime is over. Errors of tslab_map_put_with().
 */
int map_fulfil(struct tslab_map *map, const void *key, size_t key_size, tslab_handle claim, const void *value,
               size_t value_size, uint32_t ttl_ms);
