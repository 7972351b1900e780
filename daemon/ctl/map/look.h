#pragma once

/*
 * What a cell of a map looks like: its kind, which is what most of its committed slabs are; its
 * key, by which it is coloured; and how full it is.
 */

#include <stddef.h>
#include <stdint.h>

#include "daemon/ctl/base/options.h"
#include "daemon/ctl/map/data.h"

typedef enum MapKind {
        MAP_UNCOMMITTED,
        MAP_FREE,
        MAP_PARTLY,
        MAP_FULL,
        MAP_DRAINING,
        MAP_BUSY,
        _MAP_KIND_N,
} MapKind;

MapKind map_kind(const MapCell *cell);
const char *map_kind_name(MapKind kind);
uint64_t map_kind_slabs(const MapCell *cell, MapKind kind);

/* Of slots, 0 to `steps`; 0 and `steps` only where none or all are taken. */
unsigned map_fill(const MapCell *cell, unsigned steps);

/* A colour: of the 256 of terminals, and for pictures. */
typedef struct MapColour {
        unsigned terminal;
        const char *svg;
} MapColour;

MapColour map_kind_colour(MapKind kind);
/* Where there are more keys than colours, they begin anew. `place` in the sums of `by`. */
MapColour map_key_colour(size_t place);

/* The sums by which is coloured. For MAP_BY_PLACE there are none. */
const MapSum *map_sums(const MapData *map, MapBy by, size_t *ret_n);
/* Place of the cell's key in them; SIZE_MAX: none, as in a cell that holds no object. */
size_t map_key_place(const MapData *map, const MapCell *cell, MapBy by);
/* "epoch 3", "64 bytes" */
char *map_key_name(char *buffer, MapBy by, uint32_t key);
