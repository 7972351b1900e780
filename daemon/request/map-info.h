#pragma once
/* The maps of a pool, as messages. */
#include "proto/message.h"
#include "proto/validate.h"
#include "shm/arena/map-set.h"
#include "shm/map/state/tally.h"
#include "shm/stats/stats.h"

typedef struct MapInfos {
        size_t n;
        Tslab__MapInfo *pointers[SHM_ROOTS_MAX];
        Tslab__MapInfo infos[SHM_ROOTS_MAX];
        char names[SHM_ROOTS_MAX][PROTO_MAP_NAME_MAX + 1];
} MapInfos;

/*
 * Whether root i names a map: its name, which has room for PROTO_MAP_NAME_MAX + 1 bytes, and the trie. False, too,
 * for a map whose index was revoked.
 */
bool map_info_open(ShmArena *arena, uint32_t i, char *ret_name, ShmTrie *ret_trie);
/* The roots that name maps. Where there never was a map, one page of the table is read. */
ShmMapSet map_info_set(const ShmArena *arena);
/* Adds a map, without index_bytes. */
Tslab__MapInfo *map_infos_add(MapInfos *infos, const ShmTrie *trie, const char *name,
                              const ShmMapTotals *totals);
/* All maps, without index_bytes. `infos` need not be zeros. */
void map_infos_init(MapInfos *infos, ShmArena *arena, const ShmStats *stats);
