#pragma once
/* A map that is open in this process. It has nothing that a fork would have to repair. */
#include <tslab_map.h>

#include "libclient/pool.h"
#include "shm/map/map.h"

struct tslab_map {
        struct tslab *pool;
        ShmTrie trie;
};
