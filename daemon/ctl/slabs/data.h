#pragma once

/* The picture of the slabs of a pool, cell by cell, as the daemon counted them. */

#include <stddef.h>
#include <stdint.h>

#include "daemon/ctl/base/connect.h"
#include "proto/path.h"

typedef struct MapCell {
        uint32_t n_slabs; /* that it stands for; slabs in none of the counts below are not committed */
        uint32_t free, listed, held, full, draining, busy;
        uint32_t slots, taken;
        uint32_t epoch_id, epoch_slabs;
        uint32_t class_bytes, class_slabs;
} MapCell;

typedef struct MapSum {
        uint32_t key;
        uint64_t slabs, slots, taken;
} MapSum;

typedef struct MapData {
        char pool[PROTO_POOL_NAME_MAX + 1];
        MapCell *cells;
        size_t n_cells, n_cells_max;
        uint64_t n_slabs, n_slabs_ever;
        uint32_t slabs_per_cell;
        MapSum epochs[PROTO_EPOCHS_MAX], classes[PROTO_CLASSES_MAX];
        size_t n_epochs, n_classes;
} MapData;

/* At most `n_cells_max` cells. CTL_DONE, or after a complaint. */
CtlExit map_data_fetch(MapData *map, size_t n_cells_max);
void map_data_deinit(MapData *map);

/* All cells as one. */
MapCell map_data_total(const MapData *map);
