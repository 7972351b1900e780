#pragma once
#include "libclient/map.h"

/* Of the options alone. */
bool map_options_are_sound(const struct tslab_map_options *options, const ShmArena *arena);
