#include "daemon/ctl/advice/limits.h"

#include <stdio.h>
#include <string.h>

#include "daemon/ctl/base/format.h"
#include "shm/format/layout.h"

#define MISSES_MAX 20 /* one get of so many may miss: then the limit fits */

/* Memory that the pool had free when it was fullest, with the tables of its slabs: so limits and entries count it. */
static uint64_t room_of(const Tslab__StatsReply *stats) {
        uint64_t used = stats->peaks->used_bytes;

        return used < stats->size_bytes ? (stats->size_bytes - used) / SHM_SLAB_SIZE * SHM_SLAB_COST : 0;
}

/* The map has a part of twice its limit already. Slabs that are not full take an eighth more at most. */
static bool has_room_for_twice(const Tslab__StatsReply *stats, const Tslab__MapInfo *map) {
        uint64_t limit = map->limit_bytes, room = room_of(stats), more;

        if (limit > room)
                return false;
        more = 2 * limit - (map->bytes < limit ? map->bytes : limit);
        return more + more / 8 <= room;
}

/* Whether all entries were evicted once and more, and gets missed often. */
static bool is_too_small(const Tslab__MapInfo *map) {
        return map->evictions > map->entries && map->misses > (map->hits + map->misses) / MISSES_MAX;
}

static void explain_gets(char *ret, size_t size, const Tslab__MapInfo *map) {
        uint64_t n = map->hits + map->misses;

        if (n == 0)
                (void) snprintf(ret, size, "there were no gets");
        else
                (void) snprintf(ret, size, "%.1f %% of its gets missed",
                                100.0 * (double) map->misses / (double) n);
}

static void explain_limit(AdviceLimit *ret, const Tslab__MapInfo *map, bool evicts) {
        char gets[48];

        explain_gets(gets, sizeof(gets), map);
        if (evicts)
                (void) snprintf(ret->why, sizeof(ret->why), "%s evicted, and %s",
                                format_count(FORMAT_BUFFER, map->evictions, "entry was", "entries were"),
                                gets);
        else
                (void) snprintf(ret->why, sizeof(ret->why), "%s failed",
                                format_count(FORMAT_BUFFER, map->failures, "change", "changes"));
}

void advice_find_limit(AdviceLimit *ret, const Tslab__MapInfo *map, const Tslab__StatsReply *stats) {
        bool evicts = map->evict == TSLAB__MAP_EVICT__MAP_EVICT_SIEVE;
        uint64_t limit = map->limit_bytes;

        *ret = (AdviceLimit){ .value = limit };
        explain_limit(ret, map, evicts);
        if (!(evicts ? is_too_small(map) : map->failures > 0))
                return;
        if (!has_room_for_twice(stats, map)) {
                size_t n = strlen(ret->why);

                (void) snprintf(ret->why + n, sizeof(ret->why) - n,
                                "; the pool has no room for twice as much");
                return;
        }
        ret->value = 2 * limit;
        ret->changed = true;
}
