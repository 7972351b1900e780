/*
 * Threads and pools
 *
 * Purpose: from the calling thread to its record in a pool, quickly, and back when the thread ends.
 *
 * Each thread has a table of its states, one entry per pool, and in thread_cache a copy of the entry
 * used last. The states themselves are in their pool's PoolLocal, at the place of their record.
 *
 * Invariants
 *   1. An entry is used only where its serial is that of the pool at hand, so that the state it points
 *      to is mapped, and where its token is the state's, so that the state is this thread's still.
 *   2. A pool counts the entries by which threads of this process have a state. While there is one its
 *      thread may be on the fast path, and write to what the entry points to.
 *
 * Who may do what: a thread its own table and, but for tslab_close(), its own states; states of threads
 *   that end under the registry's lock.
 *
 * Crash: records are found by repair through their heads; nothing here is shared.
 */
#include "libclient/control.h"
#include "libclient/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/enter.h"
#include "shm/object.h"

typedef struct ThreadTable {
        size_t n, size;
        ThreadCache entries[];
} ThreadTable;

__thread ThreadCache thread_cache __attribute__((tls_model("initial-exec")));
static __thread ThreadTable *thread_table __attribute__((tls_model("initial-exec")));

/* While a thread is in calls, which may hold locks and must be counted off, it is not cancelled. */
static __thread struct {
        uint32_t n_calls;
        int cancel_state; /* of before the first */
} inside __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_key;

/* An entry is no more. Under the lock. One that was counted in a parent is not counted here. */
static void drop_entry(const ThreadCache *entry) {
        struct tslab *pool = registry_find(entry->serial) ?: registry_find_closed(entry->serial);

        if (pool && entry->counted != 0 && entry->counted == pool->local->number)
                pool->local->n_entries--;
}

/* Of an entry that is about to have a state in this process. */
static void count_entry(struct tslab *pool, ThreadCache *entry) {
        registry_lock();
        if (entry->counted != pool->local->number)
                pool->local->n_entries++;
        entry->counted = pool->local->number;
        registry_unlock();
}

void thread_forget_closed(void) {
        ThreadTable *table = thread_table;
        size_t n = 0;

        if (!table)
                return;
        registry_lock();
        for (size_t i = 0; i < table->n; i++)
                if (registry_find(table->entries[i].serial))
                        table->entries[n++] = table->entries[i];
                else
                        drop_entry(&table->entries[i]);
        registry_unlock();
        table->n = n;
}

void thread_state_deinit(ThreadState *state) {
        shm_cache_leave(&state->actor);
        *state = (ThreadState){};
}

static bool is_shared(const struct tslab *pool, const ThreadState *state) {
        return state == &pool->local->threads[pool->local->spare];
}

static void on_thread_exit(void *userdata) {
        ThreadTable *table = userdata;

        registry_lock();
        for (size_t i = 0; i < table->n; i++) {
                ThreadCache *entry = &table->entries[i];
                struct tslab *pool = registry_find(entry->serial);

                if (pool && entry->state && entry->state->token == entry->token &&
                    !is_shared(pool, entry->state))
                        thread_state_deinit(entry->state);
                drop_entry(entry);
        }
        registry_unlock();
        free(table);
        /* Destructors of other keys may call us yet: they begin anew. */
        thread_table = NULL;
        thread_cache = (ThreadCache){};
}

int thread_init(void) {
        return -pthread_key_create(&thread_key, on_thread_exit);
}

static ThreadCache *find_entry(uint64_t serial) {
        for (size_t i = 0; thread_table && i < thread_table->n; i++)
                if (thread_table->entries[i].serial == serial)
                        return &thread_table->entries[i];
        return NULL;
}

static int grow_table(void) {
        size_t size = thread_table ? 2 * thread_table->size : 4;
        ThreadTable *table;
        int r;

        table = realloc(thread_table, sizeof(*table) + size * sizeof(table->entries[0]));
        if (!table)
                return -ENOMEM;
        if (!thread_table)
                table->n = 0;
        table->size = size;
        thread_table = table;
        r = pthread_setspecific(thread_key, table);
        return -r;
}

/* The entry for a pool that has none in this thread. */
static int add_entry(uint64_t serial, ThreadCache **ret) {
        int r;

        if (thread_table && thread_table->n == thread_table->size)
                thread_forget_closed();
        if (!thread_table || thread_table->n == thread_table->size) {
                r = grow_table();
                if (r)
                        return r;
        }
        *ret = &thread_table->entries[thread_table->n++];
        **ret = (ThreadCache){ .serial = serial };
        return 0;
}

/* Into an entry whose state, if it ever had one, was the forking process's. */
static void take_record(struct tslab *pool, ThreadCache *entry) {
        PoolLocal *local = pool->local;
        ThreadState *state;
        ShmActor actor;

        if (pool_take_record(pool, &actor) < 0 &&
            (!control_reap_threads(pool) || pool_take_record(pool, &actor) < 0)) {
                /* ORDER: rlx; a sum for statistics. */
                shm_add_rlx(&pool->arena.header->n_unrecorded.value, 1);
                state = &local->threads[local->spare];
        } else {
                state = &local->threads[actor.id];
                *state = (ThreadState){ .actor = actor, .token = registry_token() };
        }
        entry->state = state;
        entry->token = state->token;
}

static int enter(struct tslab *pool, ThreadState **ret) {
        ThreadCache *entry;
        int r;

        entry = find_entry(pool->number);
        if (!entry) {
                r = add_entry(pool->number, &entry);
                if (r)
                        return r;
        }
        if (!entry->state || entry->state->token != entry->token) {
                r = pool_attach(pool);
                if (r)
                        return r;
                count_entry(pool, entry);
                take_record(pool, entry);
        }
        *ret = entry->state;
        if (!is_shared(pool, entry->state)) {
                if (entry->state->n_pending == 0 && !pool->local->sampler)
                        thread_cache = *entry;
                return pool_set_busy(pool, entry->state);
        }
        r = pool_begin(pool); /* until pool_leave_shared() */
        if (r == 0)
                pthread_mutex_lock(&pool->local->spare_lock);
        return r;
}

int pool_enter_slow(struct tslab *pool, ThreadState **ret) {
        int r;

        if (pool->is_reader)
                return -EROFS;
        r = pool_begin(pool);
        if (r)
                return r;
        r = enter(pool, ret);
        pool_end(pool);
        return r;
}

void pool_leave_shared(struct tslab *pool) {
        pthread_mutex_unlock(&pool->local->spare_lock);
        pool_end(pool);
}

int pool_begin(struct tslab *pool) {
        uint64_t *n_calls = &pool->local->n_calls;

        if (pool_is_closed(pool)) /* or those that call again and again would be waited for */
                return -EBADF;
        if (inside.n_calls++ == 0)
                (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &inside.cancel_state);
        /* ORDER: acqrel; it is a full barrier on x86, elsewhere the closer's membarrier is. */
        (void) shm_add_acqrel(n_calls, 1);
        if (pool->local->fences)
                shm_fence_sc(); /* ORDER: sc; stands for the membarrier. */
        if (!pool_is_closed(pool))
                return 0;
        pool_end(pool);
        return -EBADF;
}

void pool_end(struct tslab *pool) {
        /* ORDER: acqrel, pairs with quiesce(); all is done. */
        (void) shm_sub_acqrel(&pool->local->n_calls, 1);
        if (--inside.n_calls == 0)
                (void) pthread_setcancelstate(inside.cancel_state, NULL);
}
