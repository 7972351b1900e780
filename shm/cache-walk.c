/*
 * Purpose: see the header. No atomics here: what a cache holds is read by whoever walks.
 *
 * Kernel facts (3.1 to 6.18): SEEK_DATA and SEEK_HOLE on a memfd look at its page table and bring
 * nothing into being; a page that was swapped out is data.
 */
#include "shm/cache-walk.h"

#include <errno.h>
#include <unistd.h>

/* The head of a cache is in one page: what is asked for is whether that page exists. */
static_assert(sizeof(ShmRecord) % 64 == 0 && sizeof(ShmCache) % 64 == 0, "heads do not straddle pages");

/* Where the kernel cannot say, everything is data. */
static void look_ahead(ShmCacheWalk *walk, int fd, uint64_t off) {
        off_t data = lseek(fd, (off_t) off, SEEK_DATA);
        off_t end = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

        if (data >= 0 && end > data) {
                walk->data_off = (uint64_t) data;
                walk->data_end = (uint64_t) end;
        } else {
                walk->data_off = data < 0 && errno == ENXIO ? UINT64_MAX : 0;
                walk->data_end = UINT64_MAX;
        }
}

bool shm_cache_walk_next(ShmCacheWalk *walk, const ShmArena *arena, uint32_t record) {
        while (walk->next < arena->n_epochs * arena->n_classes) {
                const ShmCache *cache = shm_arena_cache(arena, record, 0, walk->next);
                uint64_t off = (uint64_t) ((const uint8_t *) cache - arena->base);

                if (off >= walk->data_end)
                        look_ahead(walk, arena->fd, off);
                walk->cache = cache;
                walk->epoch = walk->next / arena->n_classes;
                walk->class = walk->next % arena->n_classes;
                walk->next++;
                if (off >= walk->data_off)
                        return true;
        }
        return false;
}
