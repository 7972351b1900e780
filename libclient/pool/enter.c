/*
 * Threads and pools
 *
 * Purpose: finds the calling thread's record in a pool, quickly, and gives it back when the thread ends.
 *
 * Each thread has a table of its states, with one entry per pool, and in thread_cache a copy of the entry that it used
 * last. The states themselves are in the PoolLocal of their pool, at the place of their record.
 *
 * Invariants
 *   1. An entry is used only if its serial is that of the pool at hand, so that the state to which it points is mapped,
 *      and if its token is that of the state, so that the state is still this thread's.
 *   2. Tokens only rise, across forks, too (libclient/pool/registry.c): none of a child's states has the token of an
 *      entry that it inherited.
 *
 * Who may do what: a thread changes its own table and, except in tslab_close(), its own states. The states of threads
 *   that end are changed under the registry's lock.
 *
 * Crash: repair finds records through their heads; nothing here is shared.
 */
#include "libclient/pool/enter.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/pool/attach.h"
#include "libclient/pool/registry.h"
#include "proto/deadline.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/owner/thread.h"
#include "shm/cache/object.h"

#define ASK_EVERY_MSEC 100 /* threads of a process that are out of memory have caches emptied so often */
#define RECORD_EVERY_MSEC 100 /* between two looks of a process for records for its threads that share one */

typedef struct ThreadTable {
        size_t n, size;
        ThreadDomains domains;
        ThreadCache entries[];
} ThreadTable;

/* All that a thread has of its own, but for the table, is here: static memory for it is scarce. See pool.h. */
__thread ThreadCache thread_cache THREAD_MODEL;
static __thread ThreadTable *thread_table THREAD_MODEL;

/* This thread has the spare record of this pool; NULL: none. */
static __thread struct tslab *shares THREAD_MODEL;

static uint64_t exit_key; /* plus 1; 0: none yet */

static void on_thread_exit(void *userdata);

/* Entries of pools that are closed go. */
static void forget_closed(ThreadTable *table) {
        size_t n = 0;

        registry_take_lock();
        for (size_t i = 0; i < table->n; i++)
                if (registry_find(table->entries[i].serial))
                        table->entries[n++] = table->entries[i];
                else
                        registry_drop(&table->entries[i]);
        registry_release_lock();
        table->n = n;
}

static int init_key(void) {
        uint64_t none = 0;
        pthread_key_t key;
        int r;

        if (shm_load_rlx(&exit_key) != 0) /* ORDER: rlx; says nothing of other memory. */
                return 0;
        r = pthread_key_create(&key, on_thread_exit);
        /* ORDER: acqrel; says nothing of other memory. */
        if (r == 0 && !shm_cas_acqrel(&exit_key, &none, (uint64_t) key + 1))
                (void) pthread_key_delete(key);
        return -r;
}

/* Several threads may be here at once, and one that found no memory may come again: each step is done once. */
int enter_init(void) {
        return init_key() ?: registry_init();
}

static void deinit_state(ThreadState *state) {
        if (state->actor.record)
                shm_trie_settle(&state->actor);
        shm_cache_leave(&state->actor);
        *state = (ThreadState){};
}

/*
 * A signal handler may end its thread in the middle of a call. The record is then as a killed thread leaves it: slots
 * on top of a cache may be live, and a note may name a leaf that has chunks, or that is linked. Repair handles all of
 * these.
 */
static bool is_inside_call(const ThreadState *state) {
        /* ORDER: rlx; this thread's own, both. */
        return shm_load_rlx(&state->busy) ||
               (state->actor.record && shm_load_rlx(&state->actor.record->seq) & 1);
}

static void leave_to_repair(struct tslab *pool, uint32_t id) {
        /* Once the record is DEAD it may be repaired, and be another thread's own, at once. */
        pool->local->threads[id] = (ThreadState){};
        (void) shm_record_mark_dead(&pool->arena, id);
}

static void end_state(struct tslab *pool, ThreadState *state) {
        if (is_inside_call(state))
                leave_to_repair(pool, state->actor.id);
        else
                deinit_state(state);
}

/*
 * As deinit_state() for the record that threads share. Objects that other threads have pending in it are
 * freed, too. The next thread that needs a spare record takes another one.
 */
static void leave_spare(struct tslab *pool) {
        uint32_t *spare = &pool->local->spare, id = *spare;

        if (id == 0)
                return;
        shm_store_rlx(spare, 0); /* ORDER: rlx; the compare-and-set of the head comes after it. */
        leave_to_repair(pool, id);
}

static void end_spare(struct tslab *pool) {
        leave_spare(pool);
        pool_leave_shared(pool);
}

/* A thread that ended with the lock may have been in the middle of an operation with the spare record. */
void pool_take_spare_lock(struct tslab *pool) {
        if (lock_take(&pool->local->spare_lock))
                leave_spare(pool);
}

/* The state of an entry of this thread's; NULL: it has none, or it is another's by now. */
static ThreadState *own_state(const ThreadCache *entry) {
        return entry && entry->state && entry->state->token == entry->token ? entry->state : NULL;
}

/* A signal handler may have ended this thread in a call, perhaps in control work. */
static void forget_call(struct tslab *pool) {
        calls_forget(pool);
        pool->host->thread_ends(pool);
}

static void on_thread_exit(void *userdata) {
        ThreadTable *table = userdata;

        if (shares)
                end_spare(shares);
        registry_take_lock();
        registry_each(forget_call);
        for (size_t i = 0; i < table->n; i++) {
                ThreadCache *entry = &table->entries[i];
                struct tslab *pool = registry_find(entry->serial);

                if (pool && own_state(entry))
                        end_state(pool, entry->state);
                registry_drop(entry);
        }
        registry_release_lock();
        free(table);
        /* Destructors of other keys may call us yet: they begin anew. */
        thread_table = NULL;
        thread_cache = (ThreadCache){};
}

static ThreadCache *find_entry(uint64_t serial) {
        for (size_t i = 0; thread_table && i < thread_table->n; i++)
                if (thread_table->entries[i].serial == serial)
                        return &thread_table->entries[i];
        return NULL;
}

void thread_end_call(struct tslab *pool) {
        const ThreadCache *entry = find_entry(pool->number);

        if (shares == pool)
                end_spare(pool);
        if (own_state(entry) && is_inside_call(entry->state))
                end_state(pool, entry->state);
        calls_forget(pool);
}

static int grow_table(void) {
        size_t size = thread_table ? 2 * thread_table->size : 4;
        ThreadTable *table;
        int r;

        table = realloc(thread_table, sizeof(*table) + size * sizeof(table->entries[0]));
        if (!table)
                return -ENOMEM;
        /* Only the first time may find no memory: from then on the key has room for this thread's value. */
        r = pthread_setspecific((pthread_key_t) (exit_key - 1), table);
        if (r && !thread_table) { /* without the key nobody would notice that the thread ends */
                free(table);
                return -r;
        }
        if (!thread_table) {
                table->n = 0;
                table->domains.n = 0;
        }
        table->size = size;
        thread_table = table;
        return -r;
}

void thread_forget_closed(void) {
        if (thread_table)
                forget_closed(thread_table);
}

ThreadDomains *thread_domains(void) {
        return thread_table || grow_table() == 0 ? &thread_table->domains : NULL;
}

/* The entry for a pool that has none in this thread. */
static int add_entry(uint64_t serial, ThreadCache **ret) {
        int r;

        if (thread_table && thread_table->n == thread_table->size)
                forget_closed(thread_table);
        if (!thread_table || thread_table->n == thread_table->size) {
                r = grow_table();
                if (r)
                        return r;
        }
        *ret = &thread_table->entries[thread_table->n++];
        **ret = (ThreadCache){ .serial = serial };
        return 0;
}

/*
 * If this thread still has a shared record, it ended in that call, and is in the destructor of another key, before
 * ours.
 */
static int try_shared(struct tslab *pool, ThreadState **ret) {
        int r;

        if (shares)
                end_spare(shares);
        r = pool_begin(pool); /* until pool_leave_shared() */
        if (r)
                return r;
        pool_take_spare_lock(pool);
        shares = pool;
        r = pool_keep_spare(pool);
        if (r)
                pool_leave_shared(pool);
        else
                *ret = &pool->local->threads[pool->local->spare];
        return r;
}

/* Makes sure that there is a spare record: a thread that takes the last one for itself would leave none to share. */
static bool keep_spare(struct tslab *pool) {
        ThreadState *state;

        /* ORDER: rlx; changed under spare_lock only. */
        if (shm_load_rlx(&pool->local->spare) != 0)
                return true;
        if (try_shared(pool, &state) < 0)
                return false;
        pool_leave_shared(pool);
        return true;
}

static bool take_own_record(struct tslab *pool, ThreadCache *entry) {
        ThreadState *state;

        if (!keep_spare(pool) || pool_take_record(pool, lock_own_number(), &state) < 0)
                return false;
        entry->state = state;
        entry->token = state->token;
        return true;
}

/*
 * Takes a record for an entry that is empty, or that has a state of the forking process. If there is none, the entry
 * stays empty.
 */
static void take_record(struct tslab *pool, ThreadCache *entry) {
        entry->state = NULL;
        (void) shm_threads_mark_own_gone(&pool->arena, pool->local->client, lock_own_number());
        if (take_own_record(pool, entry) || (pool->host->reap_threads(pool) && take_own_record(pool, entry)))
                return;
        shm_hint_add(&pool->arena.header->n_unrecorded.value, 1);
}

/*
 * A record may be free by now: that of a thread that ended, or one of two that were both given back, since two threads
 * had taken their user's last one at once. Pending objects, and all else that this thread did with the shared record,
 * stay there.
 */
static void look_for_record(struct tslab *pool, ThreadCache *entry) {
        uint64_t *last = &pool->local->looked_msec, msec = proto_now_usec() / 1000 + 1;

        /* ORDER: rlx; two at once do no harm. */
        if (msec - shm_load_rlx(last) < RECORD_EVERY_MSEC)
                return;
        shm_store_rlx(last, msec); /* ORDER: rlx; see above. */
        (void) take_own_record(pool, entry);
}

static int find_record(struct tslab *pool, ThreadCache *entry) {
        int r = pool_attach(pool);

        if (r)
                return r;
        if (entry->counted == pool->local->number) {
                look_for_record(pool, entry);
        } else {
                registry_count(pool, entry);
                take_record(pool, entry);
        }
        return 0;
}

static int enter_shared(struct tslab *pool, ThreadState **ret) {
        int r = try_shared(pool, ret);

        return r == -EUSERS && pool->host->reap_threads(pool) ? try_shared(pool, ret) : r;
}

static ThreadState *use_entry(const struct tslab *pool, const ThreadCache *entry) {
        if (entry->state->n_pending == 0 && !pool->local->sampler)
                thread_cache = *entry;
        return entry->state;
}

ThreadState *pool_thread_slow(const struct tslab *pool) {
        const ThreadCache *entry;

        if (!thread_table || pool_is_closed(pool))
                return NULL;
        entry = find_entry(pool->number);
        return own_state(entry) ? use_entry(pool, entry) : NULL;
}

static int enter_state(struct tslab *pool, ThreadState **ret) {
        ThreadCache *entry;
        int r;

        entry = find_entry(pool->number);
        if (!entry) {
                r = add_entry(pool->number, &entry);
                if (r)
                        return r;
        }
        if (!own_state(entry)) {
                r = find_record(pool, entry);
                if (r)
                        return r;
        }
        if (!entry->state)
                return enter_shared(pool, ret);
        *ret = use_entry(pool, entry);
        return pool_set_busy(pool, *ret);
}

int pool_enter_slow(struct tslab *pool, ThreadState **ret) {
        int r;

        if (pool->is_reader)
                return -EROFS;
        r = pool_begin(pool);
        if (r)
                return r;
        r = enter_state(pool, ret);
        pool_end(pool);
        return r;
}

void pool_leave_shared(struct tslab *pool) {
        shares = NULL;
        lock_release(&pool->local->spare_lock);
        pool_end(pool);
}

bool pool_empty_caches(struct tslab *pool) {
        bool done;

        if (pool_begin(pool) < 0)
                return false;
        done = pool->host->empty_caches(pool);
        pool_end(pool);
        return done;
}

bool pool_want_caches(struct tslab *pool) {
        uint64_t *asked = &pool->local->asked_msec, msec = proto_now_usec() / 1000 + 1;
        uint64_t last = shm_load_rlx(asked); /* ORDER: rlx; two at once do no harm. */

        if (last != 0 && msec - last < ASK_EVERY_MSEC)
                return false;
        shm_store_rlx(asked, msec); /* ORDER: rlx; see above. */
        return pool_empty_caches(pool);
}
