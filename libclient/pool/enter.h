#pragma once
/*
 * Entering a pool, and leaving it, as every call does that uses one.
 *
 *      ThreadState *thread;
 *      r = pool_enter(pool, &thread);
 *      if (r)
 *              return r;
 *      r = shm_object_alloc(&thread->actor, ...);
 *      pool_leave(pool, thread);
 *
 * Between the two the thread may hold a process-private lock: code there neither waits nor enters
 * again. A call that freed objects there calls pool_run_deferred() after pool_leave().
 *
 * In between the pool stays open: tslab_close() waits for the thread.
 */
#include <errno.h>

#include "libclient/pool/calls.h"
#include "libclient/pool/host.h"

/* Prepares this process; may be called again, also after a failure. -ENOMEM, -EAGAIN (no thread key left). */
int enter_init(void);

/*
 * Finds or makes this thread's state, attaching a forked child first. With a state that threads
 * share, its lock is held until pool_leave_shared().
 */
int pool_enter_slow(struct tslab *pool, ThreadState **ret);
void pool_leave_shared(struct tslab *pool);
/* Takes spare_lock. If its last holder ended with it, the spare record is left to repair, and there is none now. */
void pool_take_spare_lock(struct tslab *pool);

/*
 * This thread's state, if it is the one that it used last, belongs to it alone, and has nothing pending; else NULL. For
 * the fast path: no pool_leave() follows.
 */
static inline ThreadState *pool_thread(const struct tslab *pool) {
        /*
         * ORDER: rlx; the closer looks at `busy` and seq of every thread after it wrote the serial.
         *
         * No pointer to thread_cache is used: UBSan would look whether it is NULL, by the flags of an instruction that
         * the linker replaces by one without flags (gcc 12).
         */
        return __builtin_expect(thread_cache.serial == shm_peek_rlx(&pool->serial) &&
                                        thread_cache.state->token == thread_cache.token,
                                1)
                       ? thread_cache.state
                       : NULL;
}

/* For a thread that ended in a call of the pool, and is in a destructor now: nobody is to wait for that call. */
void thread_end_call(struct tslab *pool);
/* This thread forgets pools that were closed. */
void thread_forget_closed(void);
/* The domains of the calling thread, until it ends; NULL: no memory. */
ThreadDomains *thread_domains(void);

/* Any state that belongs to this thread alone, whichever it used last. NULL: it has none. */
ThreadState *pool_thread_slow(const struct tslab *pool);

/* As pool_begin() for one thread's state, without an atomic read-modify-write. */
static inline int pool_set_busy(struct tslab *pool, ThreadState *state) {
        shm_store_rlx(&state->busy, 1); /* ORDER: rlx; the closer's membarrier makes it precede the load. */
        shm_compiler_barrier();
        if (__builtin_expect(state->actor.fences, 0))
                shm_fence_sc(); /* ORDER: sc; stands for the membarrier. */
        if (__builtin_expect(!pool_is_closed(pool), 1))
                return 0;
        shm_store_rel(&state->busy, 0); /* ORDER: rel, pairs with pool_quiesce(); nothing was done. */
        return -EBADF;
}

/* One more object is pending. From now on each free must look whether its object is pending. */
static inline void pool_thread_pends(ThreadState *thread) {
        thread->n_pending++;
        thread_cache = (ThreadCache){};
}

/* 0; -EBADF: closed; -EROFS: a reader has no record; -ENOTCONN and the other attach errors of <tslab.h>. */
static inline int pool_enter(struct tslab *pool, ThreadState **ret) {
        *ret = pool_thread(pool);
        return __builtin_expect(*ret != NULL, 1) ? pool_set_busy(pool, *ret) : pool_enter_slow(pool, ret);
}

/* Whether this thread shares its state with others; it holds the lock then. */
static inline bool pool_is_spare(const struct tslab *pool, const ThreadState *thread) {
        /* ORDER: rlx; a thread without the lock compares it with its own record, which it never is. */
        return thread->actor.id == shm_load_rlx(&pool->local->spare);
}

static inline void pool_leave(struct tslab *pool, ThreadState *thread) {
        /* ORDER: rlx; seen now or at the next call. */
        bool frozen = shm_load_rlx(&thread->actor.record->attention) & SHM_ATTENTION_FREEZE;
        bool many = ++thread->n_calls % HOST_CALLS == 0;

        shm_store_rel(&thread->busy, 0); /* ORDER: rel, pairs with pool_quiesce(); the call is over before. */
        if (__builtin_expect(pool_is_spare(pool, thread), 0))
                pool_leave_shared(pool);
        if (__builtin_expect(frozen, 0))
                pool->host->thaw(pool, thread);
        else if (__builtin_expect(many, 0))
                pool->host->calls(pool);
}

static inline void pool_run_deferred(struct tslab *pool) {
        /* ORDER: rlx; a thread that drained a slab looks after that, and the owner of control work looks again. */
        if (shm_load_rlx(&pool->arena.header->n_drained.value) != 0)
                pool->host->drained(pool);
}

/* Has all caches emptied, except those of threads in the middle of an operation. False: nobody does it now. */
bool pool_empty_caches(struct tslab *pool);
/* As pool_empty_caches(), for a thread that is out of memory: at most ten times a second. */
bool pool_want_caches(struct tslab *pool);
