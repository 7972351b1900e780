#pragma once
/* Removing maps, for calls on roots. */
#include <tslab_map.h>

#define MAP_ROOT_PREFIX "map."

/* Removes the map that the root names, if that is `expected`; 0: whatever it names. Errors of tslab_map_remove(). */
int map_remove(struct tslab *pool, const char *root, tslab_handle expected);
