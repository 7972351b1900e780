#pragma once
/*
 * An open pool in this process, and the records of its threads.
 *
 * What must not survive a fork (who we are in the client table, locks, each thread's record) is in
 * PoolLocal, in memory that the kernel zeroes in a forked child (MADV_WIPEONFORK, which also covers
 * _Fork() and a raw clone()): zeros say "not attached", and unlocked.
 *
 *      ThreadState *thread;
 *      r = pool_enter(pool, &thread);
 *      if (r)
 *              return r;
 *      r = shm_object_alloc(&thread->actor, ...);
 *      pool_leave(pool, thread);
 *
 * Between the two the thread may hold a process-private lock: nothing in there waits, or enters
 * again. Whoever freed objects in there calls pool_tend() after pool_leave().
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tslab.h>

#include "proto/call.h"
#include "shm/arena.h"
#include "shm/epoch.h"
#include "shm/cache.h"
#include "shm/record.h"
#include "shm/slab.h"

#define _public_ __attribute__((__visibility__("default")))

/*
 * One thread's use of one pool, in PoolLocal at the place of its record. The token says whose it is: a
 * child's thread may get the record, and so the place, that the forking thread had in the parent.
 */
typedef struct ThreadState {
        ShmActor actor;
        uint64_t token; /* of states in this process and those it was forked from, never reused; 0: none */
        uint64_t n_pending; /* from tslab_alloc_pending(), not yet published */
} __attribute__((aligned(64))) ThreadState;

typedef struct PoolLocal {
        pthread_mutex_t attach_lock; /* held while this process attaches */
        pthread_mutex_t control_lock; /* one control call at a time; guards `call` once attached */
        pthread_mutex_t spare_lock; /* held while a thread uses threads[spare] */
        uint32_t attached;
        uint32_t joined; /* `client` is ours */
        uint32_t client; /* index in the client table */
        uint32_t start_time; /* of this process; 0: not known */
        uint32_t spare; /* record for threads that get none */
        uint32_t fences; /* membarrier could not be registered */
        uint64_t asked_msec; /* when caches were last asked for, in want of memory */
        ThreadState threads[]; /* by record */
} PoolLocal;

struct tslab {
        uint64_t serial; /* of pools in this process, never reused; not 0 */
        PoolLocal *local;
        size_t local_size;
        bool is_private;
        bool is_reader;
        ShmArena arena;

        uint32_t retain; /* private: FREE slabs that keep their pages */
        ShmCacheMode cache;
        uint32_t stale;

        /* Of a daemon's pool. In a forked child that has not attached, `call` is the parent's. */
        ProtoCall *call;
        char *path;
        char comm[16]; /* "": the process's own */
        uint64_t timeout_usec;

        struct tslab *next; /* of this process's pools */
};

/* A state of this thread. It is looked at only where the serial fits, and so its pool is open. */
typedef struct ThreadCache {
        uint64_t serial;
        uint64_t token;
        ThreadState *state;
} ThreadCache;

/* The one used last. */
extern __thread ThreadCache thread_cache __attribute__((tls_model("initial-exec")));

/*
 * Finds or makes this thread's state, attaching a forked child first. With a state that threads
 * share, its lock is held until pool_leave_shared().
 */
int pool_enter_slow(struct tslab *pool, ThreadState **ret);
void pool_leave_shared(struct tslab *pool);

/*
 * This thread's state, where it was the last that it used and is its alone, with nothing pending;
 * else NULL. For the fast path: no pool_leave() follows.
 */
static inline ThreadState *pool_thread(const struct tslab *pool) {
        const ThreadCache *c = &thread_cache;

        return __builtin_expect(c->serial == pool->serial && c->state->token == c->token, 1) ? c->state : NULL;
}

/* One more object is pending: each free has to look whether it is of that kind. */
static inline void pool_thread_pends(ThreadState *thread) {
        thread->n_pending++;
        thread_cache = (ThreadCache){};
}

/* 0; -EROFS: a reader has no record; -ENOTCONN and the other attach errors of <tslab.h>. */
static inline int pool_enter(struct tslab *pool, ThreadState **ret) {
        *ret = pool_thread(pool);
        return __builtin_expect(*ret != NULL, 1) ? 0 : pool_enter_slow(pool, ret);
}

static inline void pool_leave(struct tslab *pool, ThreadState *thread) {
        if (__builtin_expect(thread->actor.id == pool->local->spare, 0))
                pool_leave_shared(pool);
}

/* Attaches this process where it is not; under no lock. The attach errors. */
int pool_attach(struct tslab *pool);

/* A record for a thread of this process, which has attached. -ENOSPC: none is left. */
int pool_take_record(struct tslab *pool, ShmActor *ret);

/* Frees an object, which may be pending in this thread. As shm_object_free(). */
int pool_free(struct tslab *pool, ThreadState *thread, uint64_t handle);

/* Private pools: does what a daemon would be woken for, unless another thread is at it. */
void pool_tend_slow(struct tslab *pool);

static inline void pool_tend(struct tslab *pool) {
        /* ORDER: rlx; who drained a slab looks after it, and whoever is at it already looks again. */
        if (pool->is_private && shm_load_rlx(&pool->arena.header->n_drained.value) != 0)
                pool_tend_slow(pool);
}
