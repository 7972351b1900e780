/*
 * Near caches
 *
 * Purpose: copies of an engine's values, none of which is read unless somebody answers for it.
 *
 * Invariants
 *   1. Copies and the cover are in one leased epoch of the process that gives the cover. It ends with that process, or
 *      when changes may have been missed. A new one begins after the process hears of changes again.
 *   2. A copy is read if the cover names its epoch, and the cover's time is not over, both after the copy was read.
 *   3. A fill replaces a claim, by version, that was put into the cover's epoch before the engine was asked. A change
 *      that the engine tells of deletes the claim or the copy.
 *
 * Who may do what: one process gives the cover, and drops; all others read, fill and drop.
 *
 * Crash: of a worker with a claim: as for any claim. Of the process that gives the cover: its epoch is revoked.
 */
#include <tslab_near.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/map.h"
#include "shm/arena/root.h"
#include "shm/cache/lookup.h"
#include "shm/map/lifetime.h"

#define NEAR_MAGIC UINT64_C(0x7261656e62616c73) /* "slabnear" */
#define ROOT_PREFIX "near."
#define TRIES_MAX 4 /* beside other programs that fill and drop */

/* The value of a key that the engine does not have. A value of these bytes is not kept. */
static const uint8_t absent[] = "\x9d\x03tslab: absent\xf1";

/* An object in the leased epoch. */
typedef struct NearCover {
        uint64_t magic;
        uint64_t until_ms; /* on the pool's clock; 0: nothing is covered */
        uint32_t epoch;
        uint32_t unused;
} NearCover;

struct tslab_near {
        struct tslab_map *map;
        char root[SHM_ROOT_NAME_SIZE];
        uint64_t handle; /* the cover's, as this process saw it last; 0: none */
        uint32_t lease; /* the epoch that this process leased */
        uint64_t own; /* the cover that this process gives; 0: none */
};

_public_ int tslab_near_open(struct tslab_near **ret, struct tslab *pool, const char *name,
                             const struct tslab_map_options *options) {
        struct tslab_near *near;
        int n, r;

        near = calloc(1, sizeof(*near));
        if (!near)
                return -ENOMEM;
        n = snprintf(near->root, sizeof(near->root), ROOT_PREFIX "%s", name);
        r = n < (int) sizeof(near->root) ? tslab_map_open(&near->map, pool, name, options) : -EINVAL;
        if (r)
                free(near);
        else
                *ret = near;
        return r;
}

_public_ struct tslab_near *tslab_near_close(struct tslab_near *near) {
        if (!near)
                return NULL;
        if (near->own)
                (void) tslab_near_end(near);
        (void) tslab_map_close(near->map);
        free(near);
        return NULL;
}

/* The cover, as it was while its object was live. -ENOENT: there is none. */
static int cover_load(struct tslab_near *near, uint64_t handle, NearCover *ret) {
        const ShmArena *arena = &near->map->pool->arena;

        if (shm_object_copy(arena, handle, 0, ret, sizeof(*ret)) != 0 || ret->magic != NEAR_MAGIC)
                return -ENOENT;
        return 0;
}

/* The epoch of copies that are covered now; 0: none. */
static uint32_t covered_epoch(struct tslab_near *near) {
        uint64_t handle = shm_load_rlx(&near->handle); /* ORDER: rlx; only a name, which is checked. */
        NearCover cover;

        if (cover_load(near, handle, &cover) != 0) {
                if (shm_root_get(&near->map->pool->arena, near->root, &handle) != 0 ||
                    cover_load(near, handle, &cover) != 0)
                        return 0;
                shm_store_rlx(&near->handle, handle); /* ORDER: rlx; as above. */
        }
        return shm_map_now_ms(&near->map->trie) < cover.until_ms ? cover.epoch : 0;
}

/* A copy that is covered. -ENOENT, -ENODATA, and the errors of tslab_map_get(). */
static ssize_t covered_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                           size_t buffer_size) {
        uint32_t epoch;
        ssize_t n;

        n = tslab_map_get(near->map, key, key_size, buffer, buffer_size, &epoch);
        if (n < 0 || covered_epoch(near) != epoch)
                return n < 0 ? n : -ENOENT;
        if (n == sizeof(absent) && memcmp(buffer, absent, sizeof(absent)) == 0)
                return -ENODATA;
        return n;
}

/* A miss. 0: the engine is to be asked; -EAGAIN: somebody else has asked it. */
static int claim_key(struct tslab_near *near, const void *key, size_t key_size, uint32_t wait_ms,
                     tslab_handle *ret_claim) {
        uint32_t epoch = covered_epoch(near);
        tslab_handle claim;
        int r;

        if (epoch == 0 || near->map->pool->is_reader)
                return 0;
        r = tslab_map_claim(near->map, key, key_size, epoch, &claim);
        if (r == 0)
                *ret_claim = claim;
        else if (r == -EEXIST)
                return -EAGAIN;
        else if (r == -EBUSY && wait_ms > 0 && tslab_map_wait(near->map, key, key_size, claim, wait_ms) == 0)
                return -EAGAIN;
        return 0;
}

_public_ ssize_t tslab_near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                                size_t buffer_size, uint32_t wait_ms, tslab_handle *ret_claim) {
        ssize_t n = -ENOENT;
        int r = -EAGAIN;

        *ret_claim = 0;
        for (int tries = 0; tries < TRIES_MAX && n == -ENOENT && r == -EAGAIN; tries++) {
                n = covered_get(near, key, key_size, buffer, buffer_size);
                if (n == -ENOENT)
                        r = claim_key(near, key, key_size, wait_ms, ret_claim);
        }
        return n;
}

/* The claim was replaced, or is to be ended. */
_public_ int tslab_near_fill(struct tslab_near *near, const void *key, size_t key_size, tslab_handle claim,
                             const void *value, size_t value_size, uint32_t ttl_ms) {
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = covered_epoch(near),
                .ttl_ms = ttl_ms,
                .mode = TSLAB_MAP_REPLACE,
                .version = claim,
        };
        bool is_absent = value && value_size == sizeof(absent) && memcmp(value, absent, sizeof(absent)) == 0;
        int r = -EAGAIN;

        if (claim == 0)
                return 0;
        if (options.epoch != 0 && !is_absent)
                r = tslab_map_put_with(near->map, key, key_size, value ?: absent,
                                       value ? value_size : sizeof(absent), &options);
        if (r == -ESTALE || r == -ESHUTDOWN) /* the epoch ended meanwhile */
                r = -EAGAIN;
        if (r)
                (void) tslab_near_give_up(near, key, key_size, claim);
        return r;
}

_public_ int tslab_near_give_up(struct tslab_near *near, const void *key, size_t key_size,
                                tslab_handle claim) {
        int r = claim ? tslab_map_delete_version(near->map, key, key_size, claim) : 0;

        return r == -ENOENT || r == -EAGAIN ? 0 : r;
}

_public_ int tslab_near_drop(struct tslab_near *near, const void *key, size_t key_size) {
        int r = tslab_map_delete(near->map, key, key_size);

        return r == -ENOENT ? 0 : r;
}

static void cover_store(NearCover *cover, uint64_t until_ms) {
        shm_store_rel(&cover->until_ms, until_ms); /* ORDER: rel; what was dropped is before. */
}

/* A live cover that another process gives is left alone. */
static int check_others(struct tslab_near *near, uint64_t *ret_root) {
        struct tslab *pool = near->map->pool;
        NearCover cover;

        if (shm_root_get(&pool->arena, near->root, ret_root) != 0)
                *ret_root = 0;
        return *ret_root && cover_load(near, *ret_root, &cover) == 0 ? -EBUSY : 0;
}

/* Copies may be put, and are not covered yet. */
static int cover_make(struct tslab_near *near, uint64_t old, uint32_t epoch) {
        struct tslab *pool = near->map->pool;
        tslab_handle handle;
        NearCover *cover;
        int r;

        r = tslab_alloc(pool, sizeof(*cover), epoch, &handle, (void **) &cover);
        if (r)
                return r;
        *cover = (NearCover){ .magic = NEAR_MAGIC, .epoch = epoch };
        r = tslab_root_set(pool, near->root, old, handle);
        if (r == 0) {
                near->own = handle;
                near->lease = epoch;
        }
        return r == -EAGAIN ? -EBUSY : r;
}

_public_ int tslab_near_begin(struct tslab_near *near) {
        struct tslab *pool = near->map->pool;
        uint64_t old;
        uint32_t epoch;
        int r;

        if (near->own)
                return -EALREADY;
        r = check_others(near, &old);
        if (r == 0)
                r = tslab_epoch_lease(pool, near->root, &epoch);
        if (r)
                return r;
        r = cover_make(near, old, epoch);
        if (r)
                (void) tslab_epoch_close(pool, epoch, TSLAB_CLOSE_REVOKE);
        return r;
}

_public_ int tslab_near_cover(struct tslab_near *near, uint32_t ms) {
        NearCover *cover;

        if (!near->own || tslab_get(near->map->pool, near->own, (void **) &cover, NULL) != 0)
                return -ESTALE;
        cover_store(cover, ms ? shm_map_now_ms(&near->map->trie) + ms : 0);
        return 0;
}

_public_ int tslab_near_end(struct tslab_near *near) {
        if (!near->own)
                return 0;
        (void) tslab_near_cover(near, 0);
        near->own = 0;
        return tslab_epoch_close(near->map->pool, near->lease, TSLAB_CLOSE_REVOKE);
}
