/*
 * The calls on objects
 *
 * Purpose: checks a program's arguments, enters the pool, and has shm/cache/object.h allocate, free or read.
 *
 * Invariants
 *   1. The fast path needs no pool_enter(): pool_thread() says that the state is this thread's alone, with nothing
 *      pending. Every other way goes through pool_enter() and pool_leave().
 *   2. A pending object is in the notes of its thread's record or, if it is shared with the process, in those of the
 *      spare record. Its note goes when it is published or freed, and not before.
 *   3. tslab_read() copies first, and then either finds the tag unchanged, or returns -ESTALE.
 *
 * Who may do what: a thread changes the notes of its own record, and those of the spare record under its lock.
 *
 * Crash: repair frees the pending objects that the notes of a dead record name.
 */
#include <errno.h>
#include <sys/types.h>

#include "libclient/pool/enter.h"
#include "libclient/pool/attach.h"
#include "libclient/pool/sampler.h"
#include "libclient/pool/slow.h"
#include "shm/cache/batch.h"
#include "shm/cache/cache.h"
#include "shm/map/evict/evict.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/cache/object.h"

/* Tries once more or, with `evicts`, as long as entries of maps that evict can make room. */
static int alloc_once_more(struct tslab *pool, size_t size, uint32_t epoch, const ShmPending *pending,
                           bool evicts, tslab_handle *ret_handle, void **ret_object) {
        ThreadState *thread;
        uint32_t n = 0;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = -ENOMEM;
        while (r == -ENOMEM && (evicts ? shm_evict_for_object(&thread->actor, size, n++) : n++ == 0))
                r = shm_object_alloc(&thread->actor, size, epoch, pending, ret_handle, ret_object);
        if (pending && r == 0)
                pool_thread_pends(thread);
        if (r == 0)
                sampler_note(pool, *ret_handle, size);
        pool_leave(pool, thread);
        return r;
}

/* Out of memory: first entries of maps that evict go; then threads are asked for the slots in their caches. */
static int alloc_again(struct tslab *pool, size_t size, uint32_t epoch, const ShmPending *pending,
                       tslab_handle *ret_handle, void **ret_object) {
        int r = alloc_once_more(pool, size, epoch, pending, true, ret_handle, ret_object);

        if (r == -ENOMEM && pool_want_caches(pool))
                r = alloc_once_more(pool, size, epoch, pending, false, ret_handle, ret_object);
        return r;
}

/* `missed`: the thread's cache has been tried in vain. */
shm_inline int alloc_entered(struct tslab *pool, size_t size, uint32_t epoch, bool missed,
                             tslab_handle *ret_handle, void **ret_object) {
        ThreadState *thread;
        uint64_t begin;
        void *object;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        begin = slow_begin(pool, &thread->slow_allocs);
        r = missed ? shm_cache_alloc_missed(&thread->actor, size, epoch, ret_handle, ret_object)
                   : shm_cache_alloc(&thread->actor, size, epoch, ret_handle, ret_object ?: &object);
        slow_end(&thread->slow_allocs, begin);
        if (r == 0)
                sampler_note(pool, *ret_handle, size);
        pool_leave(pool, thread);
        if (r == -ENOMEM)
                return alloc_again(pool, size, epoch, NULL, ret_handle, ret_object);
        return r;
}

/* Calls in which the fast path was not tried, since there is no address to write to, or no thread yet. */
__attribute__((noinline)) static int alloc_slow(struct tslab *pool, size_t size, uint32_t epoch,
                                                tslab_handle *ret_handle, void **ret_object) {
        void *object;

        if (!ret_object && pool_thread(pool))
                return tslab_alloc(pool, size, epoch, ret_handle, &object);
        return alloc_entered(pool, size, epoch, false, ret_handle, ret_object);
}

/* Restarts the call: keeping arguments live across the inlined hit would cost registers. */
__attribute__((noinline)) static int alloc_missed(struct tslab *pool, size_t size, uint32_t epoch,
                                                  tslab_handle *ret_handle, void **ret_object) {
        shm_actor_leave(&thread_cache.state->actor);
        return alloc_entered(pool, size, epoch, true, ret_handle, ret_object);
}

_public_ int tslab_alloc(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle,
                         void **ret_object) {
        ThreadState *thread = pool_thread(pool);

        if (shm_unlikely(!thread || !ret_object))
                return alloc_slow(pool, size, epoch, ret_handle, ret_object);
        if (shm_unlikely(shm_cache_alloc_hit(&thread->actor, size, epoch, ret_handle, ret_object)))
                return alloc_missed(pool, size, epoch, ret_handle, ret_object);
        return 0;
}

/* A pending object that this thread frees is no longer pending. */
static void forget_pending(ThreadState *thread, tslab_handle handle) {
        if (shm_actor_unnote(&thread->actor, handle) == 0)
                thread->n_pending--;
}

/*
 * Objects that are shared pending have their notes in the spare record, and only the thread that holds spare_lock
 * changes these. A thread that uses the spare record itself has the lock since pool_enter().
 */
static void spare_unlock(struct tslab *pool, const ThreadState *thread) {
        if (!pool_is_spare(pool, thread))
                lock_release(&pool->local->spare_lock);
}

/* -EUSERS, -EDQUOT: there is no spare record now, and nothing is locked. */
static int spare_lock(struct tslab *pool, const ThreadState *thread, ThreadState **ret) {
        int r;

        if (!pool_is_spare(pool, thread))
                pool_take_spare_lock(pool);
        r = pool_keep_spare(pool);
        if (r)
                spare_unlock(pool, thread);
        else
                *ret = &pool->local->threads[pool->local->spare];
        return r;
}

/*
 * If an object was shared pending and is stale, it is no longer pending, even if it was revoked. Otherwise the free
 * itself makes the note one that forget_freed() finds.
 */
static void forget_shared(struct tslab *pool, const ThreadState *thread, tslab_handle handle) {
        uint32_t id = shm_load_rlx(&pool->local->spare); /* ORDER: rlx; 0: nothing is shared any more. */
        ThreadState *spare;

        /* ORDER: rlx; 0: nothing was ever shared. */
        if (id == 0 || shm_load_rlx(&shm_arena_record(&pool->arena, id)->n_notes) == 0 ||
            spare_lock(pool, thread, &spare) != 0)
                return;
        forget_pending(spare, handle);
        spare_unlock(pool, thread);
}

/* `missed`: the thread's cache has been tried in vain. */
shm_inline int thread_free(struct tslab *pool, ThreadState *thread, tslab_handle handle, bool missed) {
        int r;

        r = missed ? shm_cache_free_missed(&thread->actor, handle) : shm_cache_free(&thread->actor, handle);
        if (shm_unlikely(thread->n_pending != 0))
                forget_pending(thread, handle);
        if (shm_unlikely(r == -ESTALE))
                forget_shared(pool, thread, handle);
        return r;
}

/* The slab that this thread made FREE, as index + 1; 0: none. The host looks after it. */
static uint32_t take_emptied(ThreadState *thread) {
        uint32_t emptied = thread->actor.emptied;

        thread->actor.emptied = 0;
        return emptied;
}

shm_inline int free_entered(struct tslab *pool, tslab_handle handle, bool missed) {
        ThreadState *thread;
        uint32_t emptied;
        uint64_t begin;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        begin = slow_begin(pool, &thread->slow_frees);
        r = thread_free(pool, thread, handle, missed);
        slow_end(&thread->slow_frees, begin);
        emptied = take_emptied(thread);
        pool_leave(pool, thread);
        if (emptied != 0) /* not before pool_leave(): it may take a while */
                pool->host->slab_freed(pool, emptied - 1);
        return r;
}

__attribute__((noinline)) static int free_slow(struct tslab *pool, tslab_handle handle) {
        return free_entered(pool, handle, false);
}

/* `bits` as for shm_cache_free_hit(): the handle need not be kept. */
__attribute__((noinline)) static int free_missed(struct tslab *pool, uint64_t bits) {
        ShmActor *actor = &thread_cache.state->actor;

        shm_actor_leave(actor);
        return free_entered(pool, bits ^ actor->handle_bits, true);
}

_public_ int tslab_free(struct tslab *pool, tslab_handle handle) {
        ThreadState *thread = pool_thread(pool);
        uint64_t bits;

        if (shm_unlikely(!thread))
                return free_slow(pool, handle);
        bits = handle ^ thread->actor.handle_bits;
        if (shm_unlikely(shm_cache_free_hit(&thread->actor, bits, NULL)))
                return free_missed(pool, bits);
        return 0;
}

_public_ size_t tslab_size_max(struct tslab *pool) {
        return shm_arena_size_max(&pool->arena);
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

/* As many of the n as there are, after the *done first ones. */
static int alloc_more(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *handles, size_t n,
                      size_t *done) {
        ThreadState *thread;
        void *object;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        while (*done < n) {
                size_t k = shm_batch_alloc(&thread->actor, size, epoch, handles + *done, n - *done);

                if (k == 0) { /* one object by the slow path, which refills the cache */
                        uint32_t n_evicted = 0;

                        do
                                r = shm_cache_alloc(&thread->actor, size, epoch, &handles[*done], &object);
                        while (r == -ENOMEM && shm_evict_for_object(&thread->actor, size, n_evicted++));
                        if (r)
                                break;
                        k = 1;
                }
                for (; k > 0; k--)
                        sampler_note(pool, handles[(*done)++], size);
        }
        pool_leave(pool, thread);
        return r;
}

_public_ ssize_t tslab_alloc_batch(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handles,
                                   size_t n) {
        size_t done = 0;
        int r;

        do
                r = alloc_more(pool, size, epoch, ret_handles, n, &done);
        while (r == -ENOMEM && pool_want_caches(pool));
        return done > 0 ? (ssize_t) done : r;
}

/* Returns how many of the handles were live. If objects are pending in this thread, each handle must be looked at. */
static size_t thread_free_batch(struct tslab *pool, ThreadState *thread, const tslab_handle *handles,
                                size_t n) {
        size_t n_freed = 0, i = 0, k;

        while (i < n) {
                k = thread->n_pending == 0 ? shm_batch_free(&thread->actor, handles + i, n - i) : 0;
                n_freed += k;
                i += k;
                if (k == 0)
                        n_freed += thread_free(pool, thread, handles[i++], false) == 0;
        }
        return n_freed;
}

_public_ ssize_t tslab_free_batch(struct tslab *pool, const tslab_handle *handles, size_t n) {
        uint32_t emptied;
        ThreadState *thread;
        ssize_t done;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        done = (ssize_t) thread_free_batch(pool, thread, handles, n);
        emptied = take_emptied(thread);
        pool_leave(pool, thread);
        if (emptied != 0)
                pool->host->slab_freed(pool, emptied - 1);
        return done;
}

/*
 * Whether another thread freed a pending object, without telling us. The answer is no if it may have been revoked: its
 * note then keeps the slot, since a thread of ours may be writing into it.
 */
static bool is_freed(const ShmArena *arena, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);
        uint32_t next = shm_handle_tag(arena->key, handle) + 1;
        SlabWord w;

        if (!shm_handle_plausible(arena, handle) || shm_object_live(arena, handle))
                return false;
        /* ORDER: acq, pairs with mark_slab(); an era that is revoked was closed before. */
        if (shm_load_acq(shm_slot_tag(arena, id)) != next)
                return true; /* the slot was used again */
        w = shm_slab_word(arena, slot_id_slab(id));
        return !(w.low & slot_id_mask(id)) || !shm_epoch_over(arena, slab_word_epoch(w), slab_word_era(w));
}

static void forget_freed(struct tslab *pool, ThreadState *thread) {
        (void) shm_trie_settle_kept(&thread->actor);
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t handle = shm_record_note(thread->actor.record, i);

                if (handle != 0 && is_freed(&pool->arena, handle))
                        forget_pending(thread, handle);
        }
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
        if (r == -ENOBUFS) {
                forget_freed(pool, thread);
                r = shm_object_alloc(&thread->actor, size, epoch, &pending, ret_handle, ret_object);
        }
        if (r == 0) {
                sampler_note(pool, *ret_handle, size);
                pool_thread_pends(thread);
        }
        pool_leave(pool, thread);
        return r == -ENOMEM ? alloc_again(pool, size, epoch, &pending, ret_handle, ret_object) : r;
}

static bool is_pending(const ThreadState *thread, tslab_handle handle) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX && handle != 0; i++)
                if (shm_record_note(thread->actor.record, i) == handle)
                        return true;
        return false;
}

static int publish_pending(ThreadState *thread, tslab_handle handle) {
        int r = shm_object_publish(&thread->actor, handle);

        thread->n_pending -= r == 0;
        return r;
}

_public_ int tslab_publish(struct tslab *pool, tslab_handle handle) {
        ThreadState *thread, *spare;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = publish_pending(thread, handle);
        if (r == -ENOENT && spare_lock(pool, thread, &spare) == 0) {
                r = publish_pending(spare, handle);
                spare_unlock(pool, thread);
        }
        pool_leave(pool, thread);
        return r;
}

/*
 * The new note is made before the old one goes. If the thread dies in between, the object is freed once, by its handle.
 */
static int share_pending(struct tslab *pool, ThreadState *thread, ThreadState *spare, tslab_handle handle) {
        int r;

        if (is_pending(spare, handle))
                return 0;
        if (!is_pending(thread, handle))
                return -ENOENT;
        r = shm_actor_note(&spare->actor, handle, 0, 0);
        if (r == -ENOBUFS) {
                forget_freed(pool, spare);
                r = shm_actor_note(&spare->actor, handle, 0, 0);
        }
        if (r)
                return r;
        spare->n_pending++;
        forget_pending(thread, handle);
        return 0;
}

_public_ int tslab_pending_share(struct tslab *pool, tslab_handle handle) {
        ThreadState *thread, *spare;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = spare_lock(pool, thread, &spare);
        if (r == 0) {
                r = share_pending(pool, thread, spare, handle);
                spare_unlock(pool, thread);
        }
        pool_leave(pool, thread);
        return r;
}

_public_ int tslab_drain(struct tslab *pool) {
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        shm_actor_enter(&thread->actor);
        (void) shm_cache_drain(&thread->actor);
        shm_actor_leave(&thread->actor);
        pool_leave(pool, thread);
        (void) pool_empty_caches(pool);
        return 0;
}
