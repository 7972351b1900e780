#pragma once
/*
 * Handle caches: allocating and freeing through them. The fast path is in shm/cache/cache-hit.h, the slow path in
 * shm/cache/cache.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/cache/cache-hit.h"
#include "shm/cache/uncached.h"

/* shm_object_alloc(), inside an operation. It checks everything that the fast path takes for granted. */
int shm_cache_alloc_slow(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                         uint64_t *ret_handle, void **ret_object);
/* shm_object_alloc() with `pending`. */
int shm_cache_alloc_pending(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                            uint64_t *ret_handle, void **ret_object);
/* shm_object_finish(), inside an operation; `final` may be NULL. */
int shm_cache_free_slow(ShmActor *actor, uint64_t handle, ShmFinal *final);

/* The last allocation failed with -ENOMEM, and it is to be tried again: it does not count as failed. */
void shm_cache_uncount_failure(ShmActor *actor);

/*
 * Shortens a cache that has more than `size` bytes of slots: frees most of them, and lowers its capacity. `key`: a
 * slab's class, epoch and era. If the actor has no such cache now, nothing is done. Outside any operation.
 */
void shm_cache_shorten(ShmActor *actor, uint64_t key, uint64_t size);

/* Frees all slots and releases all slabs that the actor holds. False: its record is frozen. Inside an operation. */
bool shm_cache_drain(ShmActor *actor);
/* Frees the objects that are pending in this thread. */
void shm_cache_free_pending(ShmActor *actor);
/*
 * A thread ends: frees its pending objects, empties its caches and gives back its record. An actor without a record
 * is left alone.
 */
void shm_cache_leave(ShmActor *actor);

/* The API number of the current epoch as the caches know it. False: they know of none. */
static inline bool shm_cache_current(const ShmActor *actor, uint32_t *ret_number) {
        *ret_number = actor->current;
        /* ORDER: acq, pairs with shm_freeze_begin(); an allocation in that epoch looks again. ORDER: rlx; ours. */
        return shm_load_acq(&actor->record->attention) == shm_peek_rlx(&actor->attention) &&
               actor->current != UINT32_MAX;
}

/* shm_object_alloc() without `pending`, after shm_cache_alloc_hit() missed and its operation was left. */
static inline int shm_cache_alloc_missed(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                         void **ret_object) {
        int r;

        shm_actor_enter(actor);
        r = shm_cache_alloc_slow(actor, size, epoch, NULL, ret_handle, ret_object);
        shm_actor_leave(actor);
        return r;
}

/* shm_object_free(), after shm_cache_free_hit() missed and its operation was left. */
static inline int shm_cache_free_missed(ShmActor *actor, uint64_t handle) {
        int r;

        shm_actor_enter(actor);
        r = shm_cache_free_slow(actor, handle, NULL);
        shm_actor_leave(actor);
        return r;
}

/* shm_object_alloc() without `pending`. */
static inline int shm_cache_alloc(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                  void **ret_object) {
        int r = shm_cache_alloc_hit(actor, size, epoch, ret_handle, ret_object);

        if (__builtin_expect(r == 0, 1))
                return 0;
        r = shm_cache_alloc_slow(actor, size, epoch, NULL, ret_handle, ret_object);
        shm_actor_leave(actor);
        return r;
}

/* shm_object_finish(). `final` may be NULL: then it is shm_object_free(). */
shm_inline int shm_cache_finish(ShmActor *actor, uint64_t handle, ShmFinal *final) {
        int r = shm_cache_free_hit(actor, handle ^ actor->handle_bits, final);

        if (__builtin_expect(r == 0, 1))
                return 0;
        r = shm_cache_free_slow(actor, handle, final);
        shm_actor_leave(actor);
        return r;
}

/* shm_object_free(). */
static inline int shm_cache_free(ShmActor *actor, uint64_t handle) {
        return shm_cache_finish(actor, handle, NULL);
}
