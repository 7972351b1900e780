/* Options of maps: checks, and changes of a map that is there. */
#include <errno.h>
#include <string.h>

#include "libclient/connection.h"
#include "libclient/control.h"
#include "libclient/lock.h"
#include "libclient/map-options.h"
#include "libclient/attach.h"
#include "proto/message.h"
#include "shm/arena/root.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/state/options.h"

#define ROOT_PREFIX "map."
#define SET_ALL                                                                                              \
        (TSLAB_MAP_SET_LIMIT | TSLAB_MAP_SET_TTL | TSLAB_MAP_SET_STALE | TSLAB_MAP_SET_VALUE_MAX |           \
         TSLAB_MAP_SET_EVICT)

bool map_options_are_sound(const struct tslab_map_options *o, const ShmArena *arena) {
        return o->flags <= TSLAB_MAP_EXCLUSIVE && o->ttl_ms != TSLAB_MAP_TTL_NONE &&
               o->value_max <= SHM_LEAF_VALUE_MAX && o->evict <= TSLAB_MAP_EVICT_SIEVE &&
               (o->limit_bytes == 0 || o->limit_bytes >= shm_leaf_cost_min(arena)) && o->reserved == 0;
}

static void take_options(ShmMapOptions *ret, const struct tslab_map_options *o, uint32_t set) {
        if (set & TSLAB_MAP_SET_LIMIT)
                ret->limit_bytes = o->limit_bytes;
        if (set & TSLAB_MAP_SET_TTL)
                ret->ttl_ms = o->ttl_ms;
        if (set & TSLAB_MAP_SET_STALE)
                ret->stale_ms = o->stale_ms;
        if (set & TSLAB_MAP_SET_VALUE_MAX)
                ret->value_max = o->value_max;
        if (set & TSLAB_MAP_SET_EVICT)
                ret->evict = o->evict;
}

static int set_private(struct tslab_map *map, const struct tslab_map_options *o, uint32_t set) {
        ShmMapOptions options;
        ShmActor control;
        int r;

        r = control_begin(map->pool, true, &control);
        if (r)
                return r;
        options = shm_map_options(&map->trie);
        take_options(&options, o, set);
        r = shm_map_options_change(&map->pool->arena, &map->trie, &options);
        control_end(map->pool);
        return r;
}

/* The daemon finds the map by its name. -EIDRM: another map has the name by now, or none. */
static int set_daemon(struct tslab_map *map, const struct tslab_map_options *o, uint32_t set) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__MapSet body = TSLAB__MAP_SET__INIT;
        struct tslab *pool = map->pool;
        char root[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        int r;

        if (map->trie.map == 0 || shm_root_at(&pool->arena, map->trie.map - 1, root, &handle) != 0 ||
            handle != map->trie.root)
                return -EIDRM;
        body.map = root + strlen(ROOT_PREFIX);
        body.set = set;
        body.limit_bytes = o->limit_bytes;
        body.ttl_msec = o->ttl_ms;
        body.stale_msec = o->stale_ms;
        body.value_max_bytes = o->value_max;
        body.evict = (Tslab__MapEvict) o->evict;
        request.body_case = TSLAB__REQUEST__BODY_MAP_SET;
        request.map_set = &body;
        connection_take_lock(pool);
        r = connection_ask(pool, &request, &reply);
        lock_release(&pool->local->call_lock);
        return r == -ENOENT ? -EIDRM : r;
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
        r = pool_attach(pool);
        if (r == 0)
                r = pool->is_private ? set_private(map, &o, set) : set_daemon(map, &o, set);
        pool_end(pool);
        return r == -ESTALE ? -EIDRM : r;
}
