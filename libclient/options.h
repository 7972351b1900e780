#pragma once
/* struct tslab_options as this version knows it, from the struct that the program was compiled with. */
#include <tslab.h>

#include "shm/arena/actor.h"

/* -EINVAL: it sets a field that this version does not know. `given` may be NULL. */
int options_load(const struct tslab_options *given, struct tslab_options *ret);

/* -EINVAL: no such arena can be made. */
int options_geometry(const struct tslab_options *options, ShmGeometry *ret);

/* retain_bytes, in slabs. */
uint32_t options_retain(const struct tslab_options *options);

ShmCacheMode options_cache(const struct tslab_options *options);

uint64_t options_timeout_usec(const struct tslab_options *options);
