#include "libclient/pool/enter.h"
#include "shm/arena/root.h"

_public_ int tslab_root_get(struct tslab *pool, const char *name, tslab_handle *ret_handle) {
        return shm_root_get(&pool->arena, name, ret_handle);
}

_public_ int tslab_root_set(struct tslab *pool, const char *name, tslab_handle expected,
                            tslab_handle handle) {
        int r;

        r = pool_begin(pool);
        if (r)
                return r;
        r = shm_root_set(&pool->arena, name, expected, handle);
        pool_end(pool);
        return r;
}
