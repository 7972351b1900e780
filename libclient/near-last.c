/*
 * The values that a host heard last
 *
 * Purpose: a program that may not be without an answer reads them while the engine is away. They are copies of their
 *   own, in the map "NAME.last": those of the near cache are revoked as soon as changes may be missed.
 *
 * Invariants
 *   1. A value begins with the cover under which it was kept. It counts only while the root "near.NAME" names that
 *      cover: once changes are heard again, after some may have been missed, it counts no more.
 *   2. A change deletes the key here, then in the near cache: the process that hears of it finds this map by its name.
 *   3. An answer replaces a version, or a claim, that was taken before the engine was asked. A change in between
 *      deletes both, so that an old answer does not come in behind it.
 *   4. An answer that could not be kept deletes a value that says something else.
 *
 * Who may do what: programs that called tslab_near_keep_last() keep values, all read and drop them.
 *
 * Crash: a program that has a claim dies: see claim.c.
 */
#include "libclient/near-last.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/arch/atomic.h"

#define LAST_SUFFIX ".last"
#define ROOT_PREFIX "map."

/* Names the map of the last values. -EINVAL: the name is too long. */
static int last_name(const struct tslab_near *near, char *ret, size_t size) {
        const char *name = near->root + strlen(SHM_COVER_ROOT_PREFIX);

        return snprintf(ret, size, ROOT_PREFIX "%s" LAST_SUFFIX, name) < (int) size ? 0 : -EINVAL;
}

/* -ENOENT: no program keeps values, nor did one before. */
static int last_open(struct tslab_near *near, uint32_t flags, struct tslab_map **ret) {
        const struct tslab_map_options options = { .size = sizeof(options),
                                                   .flags = flags,
                                                   .evict = TSLAB_MAP_EVICT_SIEVE };
        struct tslab_map *map, *other = NULL;
        char root[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        int r;

        *ret = shm_load_acq(&near->last); /* ORDER: acq, pairs with last_open(); the map is whole. */
        if (*ret)
                return 0;
        r = last_name(near, root, sizeof(root));
        if (r)
                return flags & TSLAB_MAP_EXISTING ? -ENOENT : r;
        /* A look at the root is cheap: a giver that drops makes it for each change. */
        if ((flags & TSLAB_MAP_EXISTING) && shm_root_get(&near->map->pool->arena, root, &handle) != 0)
                return -ENOENT;
        r = tslab_map_open(&map, near->map->pool, root + strlen(ROOT_PREFIX), &options);
        if (r)
                return r;
        /* ORDER: acqrel, pairs with last_open(); the map is whole before others see it. */
        if (!shm_cas_acqrel(&near->last, &other, map)) {
                (void) tslab_map_close(map);
                map = other;
        }
        *ret = map;
        return 0;
}

_public_ int tslab_near_keep_last(struct tslab_near *near) {
        struct tslab_map *map;
        int r = last_open(near, 0, &map);

        if (r == 0)
                near->keeps = true;
        return r;
}

/* The version of the value that there is, or a claim. */
void near_last_begin(struct tslab_near *near, const void *key, size_t key_size,
                     struct tslab_near_claim *claim) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;

        if (!near->keeps || last_open(near, TSLAB_MAP_EXISTING, &map) != 0)
                return;
        (void) tslab_map_get_with(map, key, key_size, NULL, 0, &info);
        claim->last = info.version;
        if (info.version == 0 && tslab_map_claim(map, key, key_size, TSLAB_EPOCH_CURRENT, &claim->last) == 0)
                claim->flags |= TSLAB_NEAR_CLAIMED_LAST;
        else if (info.version == 0)
                claim->last = 0;
}

static int last_put(struct tslab_map *map, const void *key, size_t key_size,
                    const struct tslab_near_claim *claim, const void *value, size_t value_size,
                    uint64_t ttl_ms) {
        const struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = TSLAB_EPOCH_CURRENT,
                .ttl_ms = ttl_ms,
                .mode = TSLAB_MAP_REPLACE,
                .version = claim->last,
        };
        uint8_t *bytes;
        int r;

        bytes = malloc(sizeof(claim->cover) + value_size);
        if (!bytes)
                return -ENOMEM;
        memcpy(bytes, &claim->cover, sizeof(claim->cover));
        memcpy(bytes + sizeof(claim->cover), value, value_size);
        value_size += sizeof(claim->cover);
        if (claim->flags & TSLAB_NEAR_CLAIMED_LAST)
                r = map_fulfil(map, key, key_size, claim->last, bytes, value_size, ttl_ms);
        else
                r = tslab_map_put_with(map, key, key_size, bytes, value_size, &options);
        free(bytes);
        return r;
}

static void forget_version(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version) {
        if (version)
                (void) tslab_map_delete_version(map, key, key_size, version);
}

/* An answer that came without a note: the value stays if it is the same. */
static void forget_other(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                         size_t value_size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        void *bytes;

        if (tslab_map_get_alloc(map, key, key_size, &bytes, &info) != 0)
                return;
        if (!value || info.value_size != sizeof(tslab_handle) + value_size ||
            memcmp((uint8_t *) bytes + sizeof(tslab_handle), value, value_size) != 0)
                forget_version(map, key, key_size, info.version);
        free(bytes);
}

void near_last_answer(struct tslab_near *near, const void *key, size_t key_size,
                      const struct tslab_near_claim *claim, const void *value, size_t value_size,
                      uint64_t ttl_ms) {
        struct tslab_map *map;

        if (!near->keeps || last_open(near, TSLAB_MAP_EXISTING, &map) != 0)
                return;
        if (claim->last == 0)
                forget_other(map, key, key_size, value, value_size);
        else if (!value || last_put(map, key, key_size, claim, value, value_size, ttl_ms) != 0)
                forget_version(map, key, key_size, claim->last);
}

void near_last_give_up(struct tslab_near *near, const void *key, size_t key_size,
                       const struct tslab_near_claim *claim) {
        struct tslab_map *map;

        if ((claim->flags & TSLAB_NEAR_CLAIMED_LAST) && last_open(near, TSLAB_MAP_EXISTING, &map) == 0)
                forget_version(map, key, key_size, claim->last);
}

int near_last_drop(struct tslab_near *near, const void *key, size_t key_size) {
        struct tslab_map *map;
        int r;

        r = last_open(near, TSLAB_MAP_EXISTING, &map);
        if (r == 0)
                r = tslab_map_delete(map, key, key_size);
        return r == -ENOENT ? 0 : r;
}

_public_ int tslab_near_last(struct tslab_near *near, const void *key, size_t key_size, void **ret_value,
                             size_t *ret_size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;
        uint64_t cover, kept;
        uint8_t *bytes;
        int r;

        r = last_open(near, TSLAB_MAP_EXISTING, &map);
        if (r == 0)
                r = tslab_map_get_alloc(map, key, key_size, (void **) &bytes, &info);
        if (r)
                return r;
        if (info.value_size >= sizeof(kept))
                memcpy(&kept, bytes, sizeof(kept));
        if (info.value_size < sizeof(kept) ||
            shm_root_get(&near->map->pool->arena, near->root, &cover) != 0 || kept != cover) {
                free(bytes);
                return -ENOENT;
        }
        *ret_size = (size_t) info.value_size - sizeof(kept);
        memmove(bytes, bytes + sizeof(kept), *ret_size + 1); /* a zero byte follows it */
        *ret_value = bytes;
        return 0;
}
