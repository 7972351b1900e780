#pragma once
/* A map that is open in this process. It has nothing that a fork would have to repair. */
#include <tslab_map.h>

#include "libclient/pool.h"
#include "shm/map/map.h"

/* Copies options of any version to `ret`, a struct of `size` bytes, of which they are a part. NULL: none. -EINVAL. */
int map_options_load(void *ret, size_t size, const void *options);

struct tslab_map {
        struct tslab *pool;
        ShmTrie trie;
};
