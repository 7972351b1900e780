/* Mapping an arena a second time, and putting blank memory in the place of a mapping. */
#include "shm/arena/arena-map.h"

#include <errno.h>
#include <sys/mman.h>

void shm_arena_move(ShmArena *arena, void *base) {
        ptrdiff_t d = (uint8_t *) base - arena->base;

        arena->base = base;
        arena->header = base;
        arena->clients = (ShmClient *) ((uint8_t *) arena->clients + d);
        arena->heads = (ShmRecordHead *) ((uint8_t *) arena->heads + d);
        arena->records += d;
        arena->changed = (uint64_t *) ((uint8_t *) arena->changed + d);
        arena->sets = (uint64_t *) ((uint8_t *) arena->sets + d);
        arena->lines = (ShmSlabLine *) ((uint8_t *) arena->lines + d);
        arena->tags = (ShmTags *) ((uint8_t *) arena->tags + d);
        arena->shortcuts = (ShmShortcuts *) ((uint8_t *) arena->shortcuts + d);
        arena->slabs += d;
}

int shm_arena_map_again(ShmArena *ret, const ShmArena *arena) {
        uint8_t *base;
        int r;

        r = shm_arena_map_fd(arena->fd, arena->size, arena->read_only, &base);
        if (r)
                return r;
        *ret = *arena;
        shm_arena_move(ret, base);
        return 0;
}

/*
 * The blank memory is made elsewhere and moved, so that mremap() replaces the arena's mapping in one step. It is
 * unlocked before it is writable: under MCL_FUTURE the kernel would populate all of it.
 */
int shm_arena_blank(ShmArena *arena) {
        size_t size = arena->size;
        void *blank;
        int r;

        blank = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (blank == MAP_FAILED)
                return -errno;
        (void) munlock(blank, size);
        (void) madvise(blank, size, MADV_DONTDUMP);
        if (mprotect(blank, size, PROT_READ | PROT_WRITE) < 0 ||
            mremap(blank, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, arena->base) == MAP_FAILED) {
                r = -errno;
                munmap(blank, size);
                return r;
        }
        return 0;
}
