#pragma once
/*
 * An open pool in this process, and the records of its threads.
 *
 * PoolLocal holds the state that must not survive a fork: our entry in the client table, locks, each thread's record.
 * The kernel zeroes its memory in a forked child (MADV_WIPEONFORK, which also covers _Fork() and a raw clone()). Zeros
 * mean "not attached", and unlocked.
 */
#include <stdbool.h>
#include <stdint.h>

#include <tslab.h>

#include "libclient/pool/lock.h"
#include "libclient/pool/thread-model.h"
#include "proto/call.h"
#include "shm/arena/arena.h"
#include "shm/epoch/epoch.h"
#include "shm/arena/idle.h"
#include "shm/cache/cache.h"
#include "shm/keeper/decay.h"
#include "shm/arena/record.h"
#include "shm/slab/slab.h"

#define _public_ __attribute__((__visibility__("default")))

/* Calls that a thread's cache did not serve, and the timed ones among them. */
typedef struct SlowCalls {
        uint64_t n, n_timed, total_ns, max_ns;
} SlowCalls;

/*
 * One thread's use of one pool, in PoolLocal at the place of its record. The token names its owner: a
 * child's thread may get the record, and so the place, that the forking thread had in the parent.
 */
typedef struct ThreadState {
        ShmActor actor;
        uint64_t token; /* a number of states in this process and its ancestors, never reused; 0: none */
        uint64_t n_pending; /* from tslab_alloc_pending(), not yet published */
        SlowCalls slow_allocs, slow_frees;
        uint32_t n_calls; /* that the fast path did not serve */
        uint32_t busy; /* between pool_enter() and pool_leave(): tslab_close() waits for it */
} __attribute__((aligned(64))) ThreadState;

typedef struct Host Host;
typedef struct Sampler Sampler;

/* References of this process to an epoch. */
typedef struct EpochRef {
        uint32_t epoch; /* with its era */
        uint32_t n;
} EpochRef;

/* A thread in the middle of a call: see libclient/pool/calls.h. */
typedef struct CallSlot {
        uint32_t tid; /* 0: none */
        uint32_t depth;
} CallSlot;
#define CALLS_MAX 128

typedef struct PoolLocal {
        Lock attach_lock; /* held while this process attaches */
        Lock call_lock; /* guards `call` once attached */
        Lock spare_lock; /* held while a thread uses threads[spare] */
        Lock refs_lock; /* guards refs[] */
        uint32_t attached;
        uint32_t joined; /* `client` is ours */
        uint32_t client; /* index in the client table */
        uint32_t spare; /* record for threads that get none; 0: it was left to repair */
        uint32_t fences; /* membarrier could not be registered */
        uint32_t n_entries; /* ThreadCaches that are counted, see there; under the registry's lock */
        uint64_t number; /* counts attachments in this process and its ancestors, never reused */
        uint64_t
                waiters; /* a number of this process, by which its waiters are told from its parent's; 0: none yet */
        CallSlot calls[CALLS_MAX]; /* see libclient/pool/calls.h */
        Sampler *sampler; /* NULL: nothing is sampled */
        uint64_t silent_usec; /* until then a daemon that did not answer is not asked to attach again */
        bool is_mute; /* the last attempt to reach the next daemon got no answer; under call_lock */
        uint64_t asked_msec; /* when caches were last asked for, in want of memory */
        uint64_t looked_msec; /* when a thread without a record of its own last looked for one */
        uint64_t thawed_msec; /* when a thread last tried to end a freeze */
        uint64_t busy_owner,
                busy_usec; /* private pools: others' control work, and when we looked whether it goes on */
        EpochRef refs[SHM_EPOCHS_MAX];
        ShmIdle idle; /* private pools: for the owner of control work, as the next two */
        uint64_t again_usec; /* when a freeze of idle threads is looked at again; 0: none is under way */
        uint64_t sweeps_before; /* how many sweeps were asked for when it became the owner */
        bool recount; /* n_free may be wrong: threads died, or slabs changed while they were counted */
        ShmDecay decay; /* private pools */
        ThreadState threads[]; /* by record; in private pools control work's memory follows */
} PoolLocal;

#define POOL_CLOSED UINT64_MAX

struct tslab {
        uint64_t serial; /* its number; POOL_CLOSED once tslab_close() has begun */
        uint64_t number; /* counts pools in this process, never reused; neither 0 nor POOL_CLOSED */
        PoolLocal *local;
        size_t local_size;
        const Host *host; /* see libclient/pool/host.h */
        bool is_operator; /* no share binds this process, as in a private pool */
        bool is_reader;
        ShmArena arena;

        uint64_t pid_namespace; /* private: that of the pool's first process */
        uint64_t expiry_usec; /* private: until then no call looks for entries that expired */
        uint32_t retain; /* private: FREE slabs that keep their pages */
        ShmCacheMode cache;
        uint32_t time_slow; /* one in so many slow calls is timed; 0: none */
        uint32_t stale;

        /* For a daemon's pool. In a forked child that has not attached, `call` is the parent's. */
        ProtoCall *call;
        Sampler *inherited_sampler; /* ours, or, in a forked child that has not attached, its parent's */
        char *path;
        char comm[16]; /* "": the process's own */
        uint64_t timeout_usec;

        /* From here on under the registry's lock. */
        struct tslab *next; /* in the list of this process's pools, or of its closed pools */
        uint64_t closed_msec; /* when its remains were ready; 0: it is open, or they cannot be given up */
};

/* A state of this thread. It is used only if the serial is that of the pool at hand: then the state is mapped. */
typedef struct ThreadCache {
        uint64_t serial;
        uint64_t token;
        ThreadState *state;
        uint64_t counted; /* number of the attachment whose n_entries counts this; 0: none does */
} ThreadCache;

#define THREAD_DOMAINS_MAX 64

/* The domains that a thread is inside of, in the order of entering. */
typedef struct ThreadDomains {
        uint32_t n;
        struct tslab_domain *domains[THREAD_DOMAINS_MAX];
} ThreadDomains;

/* A copy of the entry that this thread used last: see enter.c. */
extern __thread ThreadCache thread_cache THREAD_MODEL;
