#pragma once

/*
 * The looks of a cell of the picture: its kind, which is the state of most of its committed slabs; its key,
 * which chooses the colour; and how full it is.
 */

#include <stddef.h>
#include <stdint.h>

#include "daemon/ctl/base/options.h"
#include "daemon/ctl/slabs/data.h"

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

/*
 * The part of its slots that is taken, from 0 to `steps`; 0 only if none is taken, `steps` only if
 * all are.
 */
unsigned map_fill(const MapCell *cell, unsigned steps);

/* A colour, for terminals with 256 of them and for pictures. */
typedef struct MapColour {
        unsigned terminal;
        const char *svg;
} MapColour;

MapColour map_kind_colour(MapKind kind);
/* The colour of a key by its place in map_sums(); after the last colour, the first one comes again. */
MapColour map_key_colour(size_t place);

/* The sums by the keys of `by`; MAP_BY_PLACE has none. */
const MapSum *map_sums(const MapData *map, MapBy by, size_t *ret_n);
/* The place of the cell's key in the sums; SIZE_MAX: the cell holds no object. */
size_t map_key_place(const MapData *map, const MapCell *cell, MapBy by);
/* "epoch 3", "64 bytes" */
char *map_key_name(char *buffer, MapBy by, uint32_t key);
