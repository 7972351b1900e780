/* malloc() and free() in a pool: the 16 bytes before an object hold its handle. */
#include <errno.h>
#include <string.h>

#include "libclient/pool/pool.h"
#include "shm/cache/object.h"

typedef struct MemoryHead {
        tslab_handle handle;
        uint64_t check; /* tells a head from most other bytes */
} MemoryHead;

#define CHECK UINT64_C(0x746c6d616c6c6f63)

_public_ void *tslab_malloc(struct tslab *pool, size_t size, uint32_t epoch) {
        MemoryHead head = {};
        size_t whole;
        void *object;
        int r;

        if (size == 0) {
                errno = EINVAL;
                return NULL;
        }
        if (__builtin_add_overflow(size, sizeof(head), &whole))
                whole = SIZE_MAX; /* is refused, and counted */
        r = tslab_alloc(pool, whole, epoch, &head.handle, &object);
        if (r < 0) {
                errno = -r;
                return NULL;
        }
        head.check = head.handle ^ CHECK;
        memcpy(object, &head, sizeof(head));
        return (uint8_t *) object + sizeof(head);
}

/* Whether a head may be at `address`, in a slab that is or was in use. */
static bool may_hold_head(const ShmArena *arena, const void *address) {
        uintptr_t offset = (uintptr_t) address - (uintptr_t) arena->slabs;

        return offset < (uint64_t) shm_arena_n_slabs_ever(arena) * SHM_SLAB_SIZE &&
               offset % sizeof(MemoryHead) == 0;
}

_public_ void tslab_mfree(struct tslab *pool, void *object) {
        const uint8_t *address;
        int saved = errno;
        MemoryHead head;
        void *found;

        if (!object)
                return;
        address = (const uint8_t *) object - sizeof(head);
        if (!may_hold_head(&pool->arena, address))
                return;
        memcpy(&head, address, sizeof(head));
        if (head.check == (head.handle ^ CHECK) &&
            shm_object_get(&pool->arena, head.handle, &found, NULL) == 0 && found == address)
                (void) tslab_free(pool, head.handle);
        errno = saved;
}
