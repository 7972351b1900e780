/*
 * The pools of this process
 *
 * Purpose: knows which pools are open, and gives up the remains of closed ones.
 *
 * Invariants
 *   1. Serials and tokens only rise, across forks, too: a child continues from its parent's numbers.
 *   2. The lists of pools are changed by one store at a time: a fork between any two stores finds a list.
 *   3. A pool counts the entries by which threads of this process have a state. As long as an entry is counted, its
 *      thread may be on the fast path, and write to the entry's state.
 *
 * Who may do what: the lists, the serials and tokens, and the states of threads that end are changed under the
 *   registry's lock. That lock is in memory which is zeroed, and so unlocked, in a forked child.
 *
 * Crash: nothing here is shared.
 */
#include "libclient/pool/registry.h"

#include <sys/mman.h>
#include <time.h>

#include "libclient/pool/sampler.h"
#include "proto/deadline.h"
#include "shm/arena/arena-map.h"

#define CLOSED_MSEC 1000 /* no thread of a process that runs is kept from running so long */
#define LOOK_MSEC_MAX 100 /* at most so much of the time between two looks counts */
#define AGE_NSEC 10000000 /* between looks, where somebody waits for them */

static Lock *lock;
static struct tslab *open_pools, *closed_pools;
static struct tslab *ended_pools; /* nothing but themselves is left: within reach, for leak checkers */
static uint64_t last_serial, last_token;

int registry_init(void) {
        Lock *wiped;
        int r = lock_init(&wiped);

        if (r == 0)
                shm_store_rel(&lock, wiped); /* ORDER: rel; the memory is mapped. */
        return r;
}

void registry_take_lock(void) {
        (void) lock_take(lock);
}

void registry_release_lock(void) {
        lock_release(lock);
}

static struct tslab *find_listed(struct tslab *pool, uint64_t serial) {
        while (pool && pool->number != serial)
                pool = pool->next;
        return pool;
}

struct tslab *registry_find(uint64_t serial) {
        return find_listed(open_pools, serial);
}

void registry_each(void (*f)(struct tslab *pool)) {
        for (struct tslab *pool = open_pools; pool; pool = pool->next)
                f(pool);
        for (struct tslab *pool = closed_pools; pool; pool = pool->next)
                f(pool);
}

void registry_drop(const ThreadCache *entry) {
        struct tslab *pool = registry_find(entry->serial) ?: find_listed(closed_pools, entry->serial);

        if (pool && entry->counted != 0 && entry->counted == pool->local->number)
                pool->local->n_entries--;
}

void registry_count(struct tslab *pool, ThreadCache *entry) {
        (void) lock_take(lock);
        if (entry->counted != pool->local->number)
                pool->local->n_entries++;
        entry->counted = pool->local->number;
        lock_release(lock);
}

void registry_add(struct tslab *pool) {
        (void) lock_take(lock);
        pool->serial = pool->number = ++last_serial;
        pool->next = open_pools;
        shm_compiler_barrier(); /* a fork here finds the old list or the new one */
        open_pools = pool;
        lock_release(lock);
}

static void take_off(struct tslab **list, const struct tslab *pool) {
        for (struct tslab **link = list; *link; link = &(*link)->next)
                if (*link == pool) {
                        *link = pool->next;
                        return;
                }
}

static void put_on(struct tslab **list, struct tslab *pool) {
        pool->next = *list;
        shm_compiler_barrier(); /* a fork here finds the old list or the new one */
        *list = pool;
}

void registry_remove(struct tslab *pool) {
        (void) lock_take(lock);
        take_off(&open_pools, pool);
        lock_release(lock);
}

void registry_close(struct tslab *pool) {
        (void) lock_take(lock);
        /* ORDER: rlx; the closer's membarrier orders it. Before threads may forget the pool. */
        shm_store_rlx(&pool->serial, POOL_CLOSED);
        take_off(&open_pools, pool);
        put_on(&closed_pools, pool);
        lock_release(lock);
}

/*
 * One mapping for all closed pools, as large as the largest; earlier ones stay where they are. It reuses the remains of
 * the largest pool: a process that gives up remains because it has no address space could not map a new one.
 */
static void *common_blank(const ShmArena *arena) {
        static size_t blank_size;
        static void *blank;

        if (arena->size > blank_size) {
                (void) madvise(arena->base, arena->size,
                               MADV_DONTNEED); /* late stores of threads that still used the pool */
                blank = arena->base;
                blank_size = arena->size;
        }
        return blank;
}

/* Unmaps the remains of a closed pool. */
static void give_up_pool(struct tslab *pool) {
        static PoolLocal nobody = { .attached = 1 };
        void *base = pool->arena.base, *local = pool->local, *blank = common_blank(&pool->arena);

        if (pool->local->sampler)
                (void) sampler_free(pool->local->sampler);
        else
                (void) sampler_forget(pool->inherited_sampler); /* this process was forked after the close */
        shm_arena_move(&pool->arena, blank);
        pool->local = &nobody;
        if (base != blank)
                munmap(base, pool->arena.size);
        munmap(local, pool->local_size);
}

/* How long the process has run, as far as is known: it may have been stopped between two looks. */
static uint64_t lived_msec(void) {
        static uint64_t looked, lived = 1;
        uint64_t now = proto_now_usec() / 1000, since = now - looked;

        lived += since < LOOK_MSEC_MAX ? since : LOOK_MSEC_MAX;
        looked = now;
        return lived;
}

/* Returns how many it gave up. *ret_more: others only have to get older. */
static uint32_t give_up_old(bool *ret_more) {
        uint64_t now = lived_msec();
        struct tslab *next;
        uint32_t n = 0;

        *ret_more = false;
        for (struct tslab *pool = closed_pools; pool; pool = next) {
                next = pool->next;
                if (pool->closed_msec == 0 || pool->local->n_entries > 0)
                        continue;
                if (now - pool->closed_msec < CLOSED_MSEC) {
                        *ret_more = true;
                } else {
                        take_off(&closed_pools, pool); /* first: a fork here does not give it up again */
                        give_up_pool(pool);
                        put_on(&ended_pools, pool);
                        n++;
                }
        }
        return n;
}

void registry_keep(struct tslab *pool) {
        bool more;

        (void) lock_take(lock);
        (void) give_up_old(&more);
        pool->closed_msec = lived_msec();
        lock_release(lock);
}

bool registry_give_up(void) {
        const struct timespec while_they_age = { .tv_nsec = AGE_NSEC };
        bool more;
        uint32_t n;

        if (!shm_load_acq(&lock)) /* ORDER: acq, pairs with registry_init(); the memory is mapped. */
                return false;
        for (;;) {
                (void) lock_take(lock);
                n = give_up_old(&more);
                lock_release(lock);
                if (n > 0 || !more)
                        return n > 0;
                nanosleep(&while_they_age, NULL);
        }
}

uint64_t registry_token(void) {
        uint64_t token;

        (void) lock_take(lock);
        token = ++last_token;
        lock_release(lock);
        return token;
}
