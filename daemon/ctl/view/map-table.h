#pragma once

/* The table of maps. */

#include "daemon/ctl/view/table.h"
#include "proto/message.h"

/* With `index`, the memory that the index of each map takes is a column, too. */
Table *map_table_new(bool index);
void map_table_print(Table *table, FILE *out, Tslab__MapInfo *const *maps, size_t n_maps, bool index,
                     bool legend);
