/*
 * Opening and creating maps
 *
 * Purpose: from a name to the root of a trie, made where there is none.
 *
 * Invariants
 *   1. The named root "map.NAME" names a map. It is set by compare-and-set: of several processes that
 *      create one map, one wins, and the others free theirs and open the winner's.
 *   2. The indexes of all maps of a pool are in one epoch, which the object named by "tslab.maps"
 *      holds. A process that reserved an epoch and lost gives it back, unless the winner uses it, too:
 *      the winner may have found it by its label.
 *   3. An object for a named root is noted under SHM_NOTE_NAMED_ROOT until it is named or freed.
 *
 * Who may do what: writers create; readers open existing maps.
 *
 * Crash: repair frees objects that were made and not named. The next process that creates a map finds
 *   an epoch that was reserved and not named by its label.
 */
#include "libclient/map-open.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/map-options.h"
#include "libclient/map.h"
#include "libclient/pool/enter.h"
#include "proto/text.h"
#include "shm/arena/root.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/map-remove.h"
#include "shm/map/state/options.h"
#include "shm/owner/owner.h"

#define MAPS_LABEL "maps"
#define TRIES_MAX 1000 /* a millisecond each, where others do control work */

static_assert(sizeof(MAP_ROOT_PREFIX) + TSLAB_MAP_NAME_MAX == SHM_ROOT_NAME_SIZE,
              "a map's name fits a root's");

/*
 * Names an object, which is everyone's then, or frees it. -EAGAIN: the root is not `expected`.
 */
static int name_object(ShmActor *actor, const char *root, uint64_t expected, uint64_t handle) {
        int r;

        r = shm_root_set(actor->arena, root, expected, handle);
        if (r)
                (void) shm_object_free(actor, handle);
        (void) shm_actor_unnote(actor, handle);
        return r;
}

/* The epoch that the root names: 0; -ENOENT: it names no epoch that is open. *ret_handle: the root's handle, or 0. */
static int maps_get(const ShmArena *arena, uint32_t *ret_epoch, uint64_t *ret_handle) {
        uint32_t epoch = shm_maps_epoch(arena, ret_handle), id, era;

        if (epoch >> 8 == 0 || shm_epoch_admit(arena, epoch, &id, &era) != 0)
                return -ENOENT;
        *ret_epoch = epoch;
        return 0;
}

static int maps_set(struct tslab *pool, uint32_t epoch, uint64_t expected) {
        const ShmPending pending = { .root = SHM_NOTE_NAMED_ROOT };
        uint32_t n_evicted = 0;
        ThreadState *thread;
        uint64_t handle;
        void *object;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        do
                r = shm_object_alloc(&thread->actor, sizeof(ShmMaps), epoch, &pending, &handle, &object);
        while (r == -ENOMEM && shm_evict_for_object(&thread->actor, sizeof(ShmMaps), n_evicted++));
        if (r == 0) {
                *(ShmMaps *) object = (ShmMaps){ .magic = SHM_MAPS_MAGIC, .epoch = epoch };
                r = name_object(&thread->actor, SHM_MAPS_ROOT, expected, handle);
        }
        pool_leave(pool, thread);
        return r;
}

/* Finds an epoch that a process reserved for maps, and perhaps died before it named it. */
static bool find_labelled(const ShmArena *arena, uint32_t *ret_epoch) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (shm_epoch_get(arena, id, &info) != 0 || info.state != SHM_EPOCH_OPEN)
                        continue;
                if (!(info.flags & SHM_EPOCH_RESERVED) || strcmp(info.label, MAPS_LABEL) != 0)
                        continue;
                *ret_epoch = shm_epoch_number(id, info.era);
                return true;
        }
        return false;
}

static void pause_1ms(void) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Nobody else closes the epoch: if it stayed open because others do control work, it would be lost for good. */
static void maps_give_back(struct tslab *pool, uint32_t epoch) {
        for (int tries = 0; tries < TRIES_MAX && tslab_epoch_close(pool, epoch, 0) == -EBUSY; tries++)
                pause_1ms();
}

/* One attempt to name an epoch for maps. -EAGAIN: somebody else named one. */
static int maps_make(struct tslab *pool, uint64_t expected) {
        uint32_t epoch, winner;
        bool reserved;
        int r;

        reserved = !find_labelled(&pool->arena, &epoch);
        if (reserved) {
                r = tslab_epoch_reserve(pool, MAPS_LABEL, &epoch);
                if (r)
                        return r;
        }
        r = maps_set(pool, epoch, expected);
        /* The process that reserved the epoch we found has lost to a third one, and closed it. */
        if (!reserved && (r == -ESHUTDOWN || r == -ESTALE))
                r = -EAGAIN;
        if (r && reserved && (maps_get(&pool->arena, &winner, &expected) != 0 || winner != epoch))
                maps_give_back(pool, epoch);
        return r;
}

static int maps_epoch(struct tslab *pool, uint32_t *ret_epoch) {
        uint64_t named;
        int r = -EBUSY;

        for (int tries = 0; tries < TRIES_MAX; tries++) {
                if (maps_get(&pool->arena, ret_epoch, &named) == 0)
                        return 0;
                r = maps_make(pool, named);
                if (r == -EBUSY && shm_owner_stands_still(&pool->arena))
                        return r;
                if (r == -EBUSY)
                        pause_1ms();
                else if (r && r != -EAGAIN)
                        return r;
        }
        /* The last try may have named one. */
        return maps_get(&pool->arena, ret_epoch, &named) == 0 ? 0 : r ?: -EBUSY;
}

/* Called before the root is linked anywhere, so that a map comes into being with its options. */
static void map_configure(const ShmArena *arena, uint64_t handle, const struct tslab_map_options *options) {
        void *root;

        if (shm_object_get(arena, handle, &root, NULL) != 0)
                return;
        shm_map_options_store(root, &(ShmMapOptions){
                                            .ttl_ms = options->ttl_ms,
                                            .value_max = options->value_max,
                                            .stale_ms = options->stale_ms,
                                            .limit_bytes = options->limit_bytes,
                                            .evict = options->evict,
                                    });
}

static int name_map_anew(ShmActor *actor, const char *root, uint64_t handle, uint32_t i,
                         const ShmRootProposal *proposal, uint64_t expected) {
        const ShmTrie trie = { .arena = actor->arena, .root = handle, .map = i + 1 };
        ShmMapCensus census;
        int r;

        shm_tally_begin(actor, &trie);
        shm_map_census_begin(actor->arena, i, &census);
        r = proposal ? shm_root_confirm(actor->arena, proposal)
                     : shm_root_set(actor->arena, root, expected, handle);
        if (r == 0)
                shm_map_census_drop(actor->arena, i, &census);
        shm_tally_end(actor, &trie);
        return r;
}

/*
 * The entry may have had another map, whose index was revoked, or that was removed. That map's entries are in the
 * counts, and are dropped from them. If this thread dies before that, its record names the map, and the map is counted
 * anew.
 */
static int name_map(ShmActor *actor, const char *root, uint64_t expected, uint64_t handle) {
        int r = SHM_ROOT_E_WITHDRAWN, i = shm_root_index(actor->arena, root);
        ShmRootProposal proposal;

        if (expected != 0)
                r = i < 0 ? -EAGAIN : name_map_anew(actor, root, handle, (uint32_t) i, NULL, expected);
        for (uint32_t tries = 0; expected == 0 && tries < TRIES_MAX && r == SHM_ROOT_E_WITHDRAWN; tries++) {
                r = shm_root_propose(actor->arena, root, handle, &proposal);
                r = r ?: name_map_anew(actor, root, handle, proposal.i, &proposal, 0);
        }
        if (r)
                (void) shm_object_free(actor, handle);
        (void) shm_actor_unnote(actor, handle);
        return r == SHM_ROOT_E_WITHDRAWN ? -EAGAIN : r;
}

static int map_create(struct tslab *pool, const char *root, uint64_t expected,
                      const struct tslab_map_options *options) {
        ThreadState *thread;
        uint32_t epoch, n_evicted = 0;
        uint64_t handle;
        int r;

        r = maps_epoch(pool, &epoch);
        if (r)
                return r;
        r = pool_enter(pool, &thread);
        if (r)
                return r;
        do
                r = shm_trie_create(&thread->actor, epoch, &handle);
        while (r == -ENOMEM && shm_evict_for_object(&thread->actor, sizeof(ShmTrieRoot), n_evicted++));
        if (r == 0) {
                map_configure(&pool->arena, handle, options);
                r = name_map(&thread->actor, root, expected, handle);
        }
        pool_leave(pool, thread);
        return r == -ESTALE ? -ESHUTDOWN : r;
}

static int open_or_create(ShmTrie *trie, struct tslab *pool, const char *root,
                          const struct tslab_map_options *options) {
        bool created = false;
        uint64_t handle;
        int r = -EAGAIN;

        for (int tries = 0; tries < TRIES_MAX && r == -EAGAIN; tries++) {
                handle = 0;
                r = shm_root_get(&pool->arena, root, &handle);
                if (r == 0)
                        r = shm_trie_open(trie, &pool->arena, handle);
                if (r == 0)
                        return (options->flags & TSLAB_MAP_EXCLUSIVE) && !created ? -EEXIST : 0;
                if (r != -ENOENT && r != -ESTALE)
                        return r;
                if ((options->flags & TSLAB_MAP_EXISTING) || pool->is_reader)
                        return -ENOENT;
                r = map_create(pool, root, handle, options);
                created = r == 0;
                if (created)
                        r = -EAGAIN;
        }
        return r;
}

/* False: no map can have this name. */
static bool root_of_name(const char *name, char *ret) {
        if (!*name || !proto_text_is_clean(name, TSLAB_MAP_NAME_MAX))
                return false;
        snprintf(ret, SHM_ROOT_NAME_SIZE, MAP_ROOT_PREFIX "%s", name);
        return true;
}

_public_ int tslab_map_open(struct tslab_map **ret, struct tslab *pool, const char *name,
                            const struct tslab_map_options *options) {
        char root[SHM_ROOT_NAME_SIZE];
        struct tslab_map *map;
        struct tslab_map_options o = {};
        int r;

        r = map_options_load(&o, sizeof(o), options);
        if (r || !map_options_are_sound(&o, &pool->arena) || !root_of_name(name, root))
                return -EINVAL;

        map = calloc(1, sizeof(*map));
        if (!map)
                return -ENOMEM;
        map->pool = pool;
        r = open_or_create(&map->trie, pool, root, &o);
        if (r) {
                free(map);
                return r;
        }
        shm_map_attach(&map->trie);
        *ret = map;
        return 0;
}

_public_ struct tslab_map *tslab_map_close(struct tslab_map *map) {
        free(map);
        return NULL;
}

int map_remove(struct tslab *pool, const char *root, tslab_handle expected) {
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = shm_map_remove(&thread->actor, root, expected);
        pool_leave(pool, thread);
        if (r == 0 && pool_begin(pool) == 0) {
                pool->host->sweep_maps(pool);
                pool_end(pool);
        }
        return r;
}

_public_ int tslab_map_remove(struct tslab *pool, const char *name) {
        char root[SHM_ROOT_NAME_SIZE];

        if (!root_of_name(name, root))
                return -EINVAL;
        return pool->is_reader ? -EROFS : map_remove(pool, root, 0);
}
