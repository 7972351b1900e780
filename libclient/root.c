#include <errno.h>
#include <string.h>

#include "libclient/map-open.h"
#include "libclient/pool/enter.h"
#include "shm/arena/root.h"

_public_ int tslab_root_get(struct tslab *pool, const char *name, tslab_handle *ret_handle) {
        return shm_root_get(&pool->arena, name, ret_handle);
}

/* A map that lost its name would go on without limit and statistics in programs that have it open. */
static bool unsets_map(struct tslab *pool, const char *name, tslab_handle expected) {
        ShmTrie trie;

        return expected != 0 && !strncmp(name, MAP_ROOT_PREFIX, strlen(MAP_ROOT_PREFIX)) &&
               !pool->is_reader && shm_trie_open(&trie, &pool->arena, expected) == 0;
}

_public_ int tslab_root_set(struct tslab *pool, const char *name, tslab_handle expected,
                            tslab_handle handle) {
        int r;

        if (unsets_map(pool, name, expected)) {
                r = handle != 0 ? -EINVAL : map_remove(pool, name, expected);
                return r == -ENOENT ? -EAGAIN : r;
        }
        r = pool_begin(pool);
        if (r)
                return r;
        r = shm_root_set(&pool->arena, name, expected, handle);
        pool_end(pool);
        return r;
}
