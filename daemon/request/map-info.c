#include "daemon/request/map-info.h"

#include <stdio.h>
#include <string.h>

#include "proto/text.h"
#include "shm/arena/root.h"
#include "shm/cache/lookup.h"
#include "shm/clock/pool-clock.h"
#include "shm/map/entry/map.h"
#include "shm/map/state/options.h"
#include "shm/near/cover.h"

#define ROOT_PREFIX "map."

ShmMapSet map_info_set(const ShmArena *arena) {
        char name[SHM_ROOT_NAME_SIZE];
        ShmMapSet set = {};
        uint64_t handle;

        if (shm_root_get(arena, SHM_MAPS_ROOT, &handle) != 0)
                return set;
        for (uint32_t i = 0; shm_root_was_used(arena, i); i++)
                if (shm_root_at(arena, i, name, &handle) == 0 &&
                    !strncmp(name, ROOT_PREFIX, strlen(ROOT_PREFIX)))
                        shm_map_set_add(&set, i);
        return set;
}

bool map_info_open(ShmArena *arena, uint32_t i, char *ret_name, ShmTrie *ret_trie) {
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;

        /* A name that was cleaned finds another root, or none: tslab_map_open() does not take such names. */
        if (shm_root_at(arena, i, name, &handle) != 0 ||
            strncmp(name, ROOT_PREFIX, strlen(ROOT_PREFIX)) != 0 || !name[strlen(ROOT_PREFIX)] ||
            shm_root_index(arena, name) != (int) i || !shm_map_open_root(arena, i, ret_trie))
                return false;
        proto_text_clean(ret_name, PROTO_MAP_NAME_MAX + 1, name + strlen(ROOT_PREFIX));
        return true;
}

static void fill_options(Tslab__MapInfo *info, const ShmTrie *trie) {
        const ShmMapOptions options = shm_map_options(trie);
        void *object;

        /* The root is no more. */
        if (shm_object_get(trie->arena, trie->root, &object, NULL) != 0)
                return;
        info->limit_bytes = options.limit_bytes;
        info->ttl_msec = options.ttl_ms;
        info->stale_msec = options.stale_ms;
        info->value_max_bytes = options.value_max;
        info->evict = options.evict == SHM_MAP_EVICT_SIEVE ? TSLAB__MAP_EVICT__MAP_EVICT_SIEVE
                                                           : TSLAB__MAP_EVICT__MAP_EVICT_NEVER;
}

static Tslab__MapNear find_near(const ShmArena *arena, const char *name) {
        char root[sizeof(SHM_COVER_ROOT_PREFIX) + PROTO_MAP_NAME_MAX];
        ShmCoverTime now;
        uint64_t handle;
        ShmCover cover;

        (void) snprintf(root, sizeof(root), SHM_COVER_ROOT_PREFIX "%s", name);
        if (strlen(root) >= SHM_ROOT_NAME_SIZE || shm_root_get(arena, root, &handle) != 0)
                return TSLAB__MAP_NEAR__MAP_NEAR_NONE;
        now = shm_cover_now();
        return shm_cover_load(arena, handle, &cover) == 0 && shm_cover_holds(&cover, &now)
                       ? TSLAB__MAP_NEAR__MAP_NEAR_COVERED
                       : TSLAB__MAP_NEAR__MAP_NEAR_NOT_COVERED;
}

Tslab__MapInfo *map_infos_add(MapInfos *infos, const ShmTrie *trie, const char *name,
                              const ShmMapTotals *totals) {
        Tslab__MapInfo *info = &infos->infos[infos->n];

        tslab__map_info__init(info);
        (void) strncpy(infos->names[infos->n], name, PROTO_MAP_NAME_MAX);
        infos->names[infos->n][PROTO_MAP_NAME_MAX] = 0;
        info->map = infos->names[infos->n];
        info->entries = totals->entries;
        info->bytes = totals->bytes;
        info->inserts = totals->inserts;
        info->deletes = totals->deletes;
        info->expirations = totals->expirations;
        info->evictions = totals->evictions;
        info->failures = totals->failures;
        info->hits = totals->hits;
        info->misses = totals->misses;
        info->near = find_near(trie->arena, name);
        fill_options(info, trie);
        infos->pointers[infos->n++] = info;
        return info;
}

void map_infos_init(MapInfos *infos, ShmArena *arena, const ShmStats *stats) {
        char name[PROTO_MAP_NAME_MAX + 1];
        ShmMapTotals totals;
        ShmTrie trie;

        ShmMapSet set = map_info_set(arena);

        infos->n = 0;
        for (uint32_t i = 0; (i = shm_map_set_next(&set, i)) < SHM_ROOTS_MAX; i++) {
                if (!map_info_open(arena, i, name, &trie))
                        continue;
                shm_map_counts(arena, i, &totals);
                totals.hits = stats->map_gets[i].hits;
                totals.misses = stats->map_gets[i].misses;
                (void) map_infos_add(infos, &trie, name, &totals);
        }
}
