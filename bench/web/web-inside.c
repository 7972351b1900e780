/* A look into a pool's arena for a figure that <tslab_map.h> does not give; measured operations never pass here. */
#include "bench/web/web-inside.h"

#include "libclient/map.h"
#include "shm/stats/stats.h"

uint64_t inside_index_bytes(const struct tslab_map *map) {
        static ShmStats stats;

        shm_stats(&map->pool->arena, &stats);
        return stats.epochs[map->trie.epoch & 0xff].live_size;
}
