/* The calls that other folders use: see shm/cache/object.h. */
#include "shm/cache/object.h"

#include <errno.h>

#include "shm/cache/cache.h"

int shm_object_alloc(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                     uint64_t *ret_handle, void **ret_object) {
        void *object;

        if (actor->arena->read_only)
                return -EROFS;
        if (!ret_object)
                ret_object = &object;
        if (!pending)
                return shm_cache_alloc(actor, size, epoch, ret_handle, ret_object);
        return shm_cache_alloc_pending(actor, size, epoch, pending, ret_handle, ret_object);
}

int shm_object_free(ShmActor *actor, uint64_t handle) {
        if (actor->arena->read_only)
                return -EROFS;
        return shm_cache_free(actor, handle);
}

int shm_object_finish(ShmActor *actor, uint64_t handle, ShmFinal *final) {
        if (actor->arena->read_only)
                return -EROFS;
        return shm_cache_finish(actor, handle, final);
}

int shm_object_publish(ShmActor *actor, uint64_t handle) {
        return shm_actor_unnote(actor, handle);
}
