/*
 * The pools of this process
 *
 * Purpose: which pools are open, which are closed and not given up yet, and which entries of a daemon's
 *   arena are this process's, so that the daemon can tell them from those of a program that the process
 *   ran before an exec.
 *
 * Invariants
 *   1. Serials and tokens only rise, across forks too: a child continues from its parent's, so none of
 *      its states has a token that some entry it inherited has.
 *   2. The lists are changed by one store at a time: a fork between any two finds a list.
 *   3. A client that a daemon made for this process is in registry_own_clients() from before its thread
 *      calls registry_end_attach() until its last record went back. A thread that asks in between finds
 *      `are_all` false: so all clients that are missing from a complete list belong to nobody.
 *
 * Who may do what: all of it under the registry's lock, which is in memory that is zeroed, and so
 *   unlocked, in a forked child. PoolLocal is zeroed as well: a child owns none of its parent's clients.
 *
 * Crash: nothing here is shared.
 */
#include "libclient/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "proto/deadline.h"

#define CLOSED_MSEC 1000 /* no thread of a process that runs is kept from running so long */
#define LOOK_MSEC_MAX 100 /* as much of the time between two looks counts */
#define AGE_NSEC 10000000 /* between looks, where somebody waits for them */

typedef struct Wiped {
        pthread_mutex_t lock; /* zeros are PTHREAD_MUTEX_INITIALIZER */
        uint32_t n_attaching; /* threads between registry_begin_attach() and registry_end_attach() */
} Wiped;

static pthread_once_t registry_once = PTHREAD_ONCE_INIT;
static int registry_error;
static Wiped *wiped;
static struct tslab *registry_pools, *registry_closed;
static struct tslab *registry_ended; /* nothing but themselves is left: within reach, for leak checkers */
static uint64_t last_serial, last_token;

static void init_once(void) {
        void *memory = mmap(NULL, sizeof(*wiped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED || madvise(memory, sizeof(*wiped), MADV_WIPEONFORK) < 0) {
                registry_error = -ENOMEM;
                return;
        }
        wiped = memory;
        registry_error = thread_init();
}

int registry_init(void) {
        (void) pthread_once(&registry_once, init_once);
        return registry_error;
}

void registry_lock(void) {
        pthread_mutex_lock(&wiped->lock);
}

void registry_unlock(void) {
        pthread_mutex_unlock(&wiped->lock);
}

static struct tslab *find(struct tslab *pool, uint64_t serial) {
        while (pool && pool->number != serial)
                pool = pool->next;
        return pool;
}

struct tslab *registry_find(uint64_t serial) {
        return find(registry_pools, serial);
}

struct tslab *registry_find_closed(uint64_t serial) {
        return find(registry_closed, serial);
}

void registry_add(struct tslab *pool) {
        registry_lock();
        pool->serial = pool->number = ++last_serial;
        pool->next = registry_pools;
        shm_compiler_barrier(); /* a fork here finds the old list or the new one */
        registry_pools = pool;
        registry_unlock();
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
        registry_lock();
        take_off(&registry_pools, pool);
        registry_unlock();
}

void registry_close(struct tslab *pool) {
        registry_lock();
        /* ORDER: rlx; the closer's membarrier orders it. Before threads may forget the pool. */
        shm_store_rlx(&pool->serial, POOL_CLOSED);
        take_off(&registry_pools, pool);
        put_on(&registry_closed, pool);
        registry_unlock();
}

/* For how long the process ran, as far as is known: it may have been stopped between two looks. */
static uint64_t lived_msec(void) {
        static uint64_t looked, lived = 1;
        uint64_t now = proto_now_usec() / 1000, since = now - looked;

        lived += since < LOOK_MSEC_MAX ? since : LOOK_MSEC_MAX;
        looked = now;
        return lived;
}

/* Returns how many it gave up; whether there are more that only have to get older. */
static uint32_t give_up_old(bool *ret_more) {
        uint64_t now = lived_msec();
        struct tslab *next;
        uint32_t n = 0;

        *ret_more = false;
        for (struct tslab *pool = registry_closed; pool; pool = next) {
                next = pool->next;
                if (pool->closed_msec == 0 || pool->local->n_entries > 0)
                        continue;
                if (now - pool->closed_msec < CLOSED_MSEC) {
                        *ret_more = true;
                } else {
                        take_off(&registry_closed, pool); /* first: a fork here does not give it up again */
                        pool_give_up(pool);
                        put_on(&registry_ended, pool);
                        n++;
                }
        }
        return n;
}

void registry_keep(struct tslab *pool) {
        bool more;

        thread_forget_closed();
        registry_lock();
        (void) give_up_old(&more);
        pool->closed_msec = lived_msec();
        registry_unlock();
}

bool registry_give_up(void) {
        const struct timespec while_they_age = { .tv_nsec = AGE_NSEC };
        bool more;
        uint32_t n;

        for (;;) {
                registry_lock();
                n = give_up_old(&more);
                registry_unlock();
                if (n > 0 || !more)
                        return n > 0;
                nanosleep(&while_they_age, NULL);
        }
}

uint64_t registry_token(void) {
        uint64_t token;

        registry_lock();
        token = ++last_token;
        registry_unlock();
        return token;
}

void registry_begin_attach(void) {
        registry_lock();
        wiped->n_attaching++;
        registry_unlock();
}

void registry_end_attach(void) {
        registry_lock();
        wiped->n_attaching--;
        registry_unlock();
}

/* A pool that is being closed has its records yet; once what is left of it is kept, or given up, it has none. */
static bool is_client_of(const struct tslab *pool, const uint64_t *arena_id) {
        if (pool->is_private || pool->closed_msec != 0 ||
            memcmp(pool->arena.arena_id, arena_id, sizeof(pool->arena.arena_id)) != 0)
                return false;
        /* ORDER: acq, pairs with pool_join(); `client` is set. */
        return shm_load_acq(&pool->local->joined) != 0;
}

static void list_clients(const struct tslab *pool, const uint64_t *arena_id, OwnClients *own) {
        for (; pool; pool = pool->next)
                if (is_client_of(pool, arena_id))
                        /* ORDER: rlx; a reader's may just be renewed, and readers hold nothing. */
                        own->clients[own->n++] = shm_load_rlx(&pool->local->client);
}

static size_t count_pools(const struct tslab *pool) {
        size_t n = 0;

        for (; pool; pool = pool->next)
                n++;
        return n;
}

int registry_own_clients(const uint64_t *arena_id, OwnClients *ret) {
        OwnClients own = {};

        registry_lock();
        own.clients =
                calloc(count_pools(registry_pools) + count_pools(registry_closed) + 1, sizeof(*own.clients));
        if (own.clients) {
                list_clients(registry_pools, arena_id, &own);
                list_clients(registry_closed, arena_id, &own);
                own.are_all = wiped->n_attaching <= 1;
        }
        registry_unlock();
        if (!own.clients)
                return -ENOMEM;
        *ret = own;
        return 0;
}
