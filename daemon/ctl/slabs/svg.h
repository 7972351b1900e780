#pragma once

/* A map as a picture. */

#include <stdio.h>

#include "daemon/ctl/slabs/look.h"

#define MAP_SVG_CELLS 8192

void map_svg_print(FILE *out, const MapData *map, MapBy by, uint64_t now_usec);
