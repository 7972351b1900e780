#pragma once
#include <stdint.h>

struct tslab_map;

/* Bytes of the index of all maps of the map's pool. */
uint64_t inside_index_bytes(const struct tslab_map *map);
