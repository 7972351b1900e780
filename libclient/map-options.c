/* Options of maps: checks, and changes of a map that is there. */
#include "libclient/map-options.h"

#include <errno.h>

#include "libclient/pool/attach.h"
#include "shm/map/state/lifetime.h"

static_assert(TSLAB_MAP_TTL_MAX == SHM_MAP_TTL_MAX_MS, "all that an entry can have");

#define SET_ALL                                                                                              \
        (TSLAB_MAP_SET_LIMIT | TSLAB_MAP_SET_TTL | TSLAB_MAP_SET_STALE | TSLAB_MAP_SET_VALUE_MAX |           \
         TSLAB_MAP_SET_EVICT)

bool map_options_are_sound(const struct tslab_map_options *o, const ShmArena *arena) {
        return o->flags <= TSLAB_MAP_EXCLUSIVE && o->ttl_ms <= TSLAB_MAP_TTL_MAX &&
               o->value_max <= SHM_LEAF_VALUE_MAX && o->evict <= TSLAB_MAP_EVICT_SIEVE &&
               (o->limit_bytes == 0 || o->limit_bytes >= shm_leaf_cost_min(arena));
}

_public_ int tslab_map_set_options(struct tslab_map *map, const struct tslab_map_options *options,
                                   uint32_t set) {
        struct tslab_map_options o = {};
        struct tslab *pool = map->pool;
        int r;

        if (set == 0 || set & ~(uint32_t) SET_ALL || !options || map_options_load(&o, sizeof(o), options) ||
            !map_options_are_sound(&o, &pool->arena))
                return -EINVAL;
        if (pool->is_reader)
                return -EROFS;
        r = pool_begin(pool);
        if (r)
                return r;
        r = pool_attach(pool) ?: pool->host->set_map(pool, &map->trie, &o, set);
        pool_end(pool);
        return r == -ESTALE ? -EIDRM : r;
}
