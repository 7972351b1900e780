#pragma once
#include "libclient/map.h"

/* Looks at the options alone. */
bool map_options_are_sound(const struct tslab_map_options *options, const ShmArena *arena);
