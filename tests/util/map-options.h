#pragma once
/* Changing one option of a map, as the daemon does. */
#include "shm/map/state/options.h"

#define TRIE_SET_OPTION(trie, option, v)                                                                     \
        do {                                                                                                 \
                ShmMapOptions options_ = shm_map_options(trie);                                              \
                options_.option = (v);                                                                       \
                shm_map_options_store(trie_root(trie), &options_);                                           \
        } while (0)
