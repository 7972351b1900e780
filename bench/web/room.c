/*
 * The most free memory with which a put of a large value still fails, as a multiple of the value's size. A pool is
 * filled with objects of a page, then these are freed one by one until the put succeeds. The put replaces an entry,
 * since for a new one the index may need a slab.
 */
#include <errno.h>
#include <string.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/web.h"

#define ROOM_POOL_BYTES (UINT64_C(16) << 20)
#define ROOM_PAGE 4096

static uint32_t pool_fill(struct tslab *pool, tslab_handle *handles) {
        uint32_t n = 0;

        while (tslab_alloc(pool, ROOM_PAGE, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                n++;
        return n;
}

/* Frees objects until there is room for the value. Returns the bytes that were free when there was none yet. */
static uint64_t short_bytes(struct tslab *pool, struct tslab_map *map, const Web *web, uint32_t size) {
        static tslab_handle handles[ROOM_POOL_BYTES / ROOM_PAGE];
        uint32_t n, n_freed = 0;

        if (tslab_map_put(map, "large", 5, web->value, 1, TSLAB_EPOCH_CURRENT) < 0)
                bench_fail("no room for an entry");
        n = pool_fill(pool, handles);
        while (tslab_map_put(map, "large", 5, web->value, size, TSLAB_EPOCH_CURRENT) == -ENOMEM) {
                if (n_freed == n || tslab_free(pool, handles[n_freed]) < 0)
                        bench_fail("no room for %u bytes", size);
                n_freed++;
        }
        return n_freed == 0 ? 0 : (uint64_t) (n_freed - 1) * ROOM_PAGE;
}

void web_room(Web *web) {
        static const uint32_t sizes[] = { 7168, 10240, 65536, 262144, 1048576 };
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = ROOM_POOL_BYTES };

        if (web->store != &store_tslab)
                return;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct tslab *pool;
                struct tslab_map *map;

                if (tslab_create(&pool, &options) < 0 || tslab_map_open(&map, pool, "room", NULL) < 0)
                        bench_fail("no pool of %" PRIu64 " bytes", ROOM_POOL_BYTES);
                web_metric(web, (double) short_bytes(pool, map, web, sizes[i]) / sizes[i], "short_%u",
                           sizes[i]);
                map = tslab_map_close(map);
                pool = tslab_close(pool);
        }
}
