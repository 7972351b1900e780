#pragma once

/* The picture of the slabs, as characters. */

#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/slabs/look.h"

typedef struct MapText {
        MapBy by;
        unsigned columns;
        bool utf8, coloured, legend;
} MapText;

/* The number of cells that fit between title and legend on a terminal. */
size_t map_text_n_cells(unsigned columns, unsigned rows);

void map_text_print(FILE *out, const MapData *map, const MapText *how);
