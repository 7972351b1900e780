#include <errno.h>
#include <sys/types.h>

#include "libclient/control.h"
#include "libclient/pool.h"
#include "shm/object.h"

_public_ int tslab_alloc(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle,
                         void **ret_object) {
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (__builtin_expect(r != 0, 0))
                return r;
        r = shm_object_alloc(&thread->actor, size, epoch, NULL, ret_handle, ret_object);
        pool_leave(pool, thread);
        return r;
}

/* What is pending in this thread and freed is pending no more. */
static void forget_pending(ThreadState *thread, tslab_handle handle) {
        if (shm_actor_unnote(&thread->actor, handle) == 0)
                thread->n_pending--;
}

int pool_free(struct tslab *pool, ThreadState *thread, tslab_handle handle) {
        int r;

        r = shm_object_free(&thread->actor, handle);
        if (__builtin_expect(thread->n_pending != 0, 0))
                forget_pending(thread, handle);
        return r;
}

/* Whether a private pool has to look after the slab of an object that was just freed. */
static bool emptied(const struct tslab *pool, tslab_handle handle) {
        uint32_t slab = slot_id_slab(shm_handle_slot(handle));

        return pool->is_private && slab_word_place(shm_slab_word(&pool->arena, slab)) == SLAB_FREE;
}

_public_ int tslab_free(struct tslab *pool, tslab_handle handle) {
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (__builtin_expect(r != 0, 0))
                return r;
        r = pool_free(pool, thread, handle);
        pool_leave(pool, thread);
        if (r == 0 && emptied(pool, handle)) /* not before pool_leave(): it may take a while */
                control_slab_freed(pool, slot_id_slab(shm_handle_slot(handle)));
        return r;
}

_public_ int tslab_get(struct tslab *pool, tslab_handle handle, void **ret_object, size_t *ret_size) {
        return shm_object_get(&pool->arena, handle, ret_object, ret_size);
}

_public_ ssize_t tslab_read(struct tslab *pool, tslab_handle handle, void *buffer, size_t size) {
        size_t object_size;
        void *object;
        int r;

        r = shm_object_get(&pool->arena, handle, &object, &object_size);
        if (r)
                return r;
        if (size < object_size)
                return -EMSGSIZE;
        r = shm_object_copy(&pool->arena, handle, 0, buffer, object_size);
        if (r) /* -EMSGSIZE: freed, and its slot given to another class, since we looked */
                return -ESTALE;
        return (ssize_t) object_size;
}

_public_ ssize_t tslab_alloc_batch(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handles,
                                   size_t n) {
        ThreadState *thread;
        size_t done = 0;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        while (r == 0 && done < n) {
                r = shm_object_alloc(&thread->actor, size, epoch, NULL, &ret_handles[done], NULL);
                done += r == 0;
        }
        pool_leave(pool, thread);
        return done > 0 ? (ssize_t) done : r;
}

_public_ ssize_t tslab_free_batch(struct tslab *pool, const tslab_handle *handles, size_t n) {
        tslab_handle last = 0; /* of those freed, one that leaves its slab empty */
        ThreadState *thread;
        ssize_t done = 0;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (pool_free(pool, thread, handles[i]) != 0)
                        continue;
                done++;
                last = emptied(pool, handles[i]) ? handles[i] : last;
        }
        pool_leave(pool, thread);
        if (last != 0)
                control_slab_freed(pool, slot_id_slab(shm_handle_slot(last)));
        return done;
}

_public_ int tslab_alloc_pending(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle,
                                 void **ret_object) {
        static const ShmPending pending = {};
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = shm_object_alloc(&thread->actor, size, epoch, &pending, ret_handle, ret_object);
        thread->n_pending += r == 0;
        pool_leave(pool, thread);
        return r;
}

_public_ int tslab_publish(struct tslab *pool, tslab_handle handle) {
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = handle == 0 ? -ENOENT : shm_object_publish(&thread->actor, handle);
        thread->n_pending -= r == 0;
        pool_leave(pool, thread);
        return r;
}

_public_ int tslab_drain(struct tslab *pool) {
        (void) pool;
        return 0;
}
