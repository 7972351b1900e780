/*
 * Closing pools
 *
 * Purpose: closes a pool while threads may be calling into it, now or later.
 *
 * If the process has other threads, some things stay: struct tslab, its PoolLocal and, in place of the arena, memory
 * that reads as zeros. A thread that looks there finds no slab, no root, no map. Once no thread is left that may be
 * about to write there, and readers have had a second to finish, all closed pools share one such memory and one
 * PoolLocal.
 *
 * Invariants
 *   1. A call that changes the arena is inside pool_enter()..pool_leave(), with its state busy; or inside
 *      pool_begin()..pool_end(), where it has a slot; or it is the fast path, with its record's seq odd.
 *   2. The closer writes the serial, issues a membarrier, then looks. So a thread that became busy, or took a slot,
 *      sees that the pool is closed, or the closer sees the thread. From then on calls only leave.
 *   3. When no call is left, nobody writes an actor's `attention`. The closer sets it to UINT64_MAX, where it stays.
 *      After one more membarrier an odd seq is that of an operation in progress, or of one that will miss.
 *   4. The closer cannot see a thread between its look at the serial and its store to seq. That thread finds its state,
 *      whose `attention` fits nothing, so it misses. Its stores go to the arena until the arena is replaced, and
 *      afterwards to memory that nobody uses. So records are given back only then, over another mapping.
 *   5. A thread that ended inside a call, by a raw exit, never leaves it. When the closer finds the thread gone, it
 *      marks the record DEAD and repairs it. Nor does it wait for such a thread between pool_begin() and pool_end().
 *
 * Who may do what: the closer writes `serial`, and `attention` in the actors of other threads; a thread writes all else
 *   of its state.
 *
 * Crash: repair finds records through their heads. If there is no memory for another mapping, the records stay until
 *   this process ends, and are left to repair, too.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/enter.h"
#include "libclient/open.h"
#include "libclient/pool/registry.h"
#include "libclient/pool/sampler.h"
#include "shm/arena/arena-map.h"
#include "shm/maintain/freeze.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/owner/thread.h"

#define YIELDS_MAX 100
#define SLICE_NSEC 50000
#define LOOK_EVERY (2 * YIELDS_MAX) /* slices: for threads that are no more */
#define PAGE 4096

/* A thread that is inside may not be running; or it may have ended there, so that its record is left to repair. */
static void wait_slice(struct tslab *pool, uint32_t *n) {
        const struct timespec slice = { .tv_nsec = SLICE_NSEC };

        if ((*n)++ < YIELDS_MAX) {
                sched_yield();
                return;
        }
        if (*n % LOOK_EVERY == 0)
                (void) shm_threads_mark_own_gone(&pool->arena, pool->local->client, 0);
        nanosleep(&slice, NULL);
}

/* The next state of this process; NULL: there is no more. There may be as many as the arena has had records. */
static ThreadState *next_state(const struct tslab *pool, uint32_t n_records, uint32_t *i) {
        while (*i < n_records) {
                ThreadState *state = &pool->local->threads[(*i)++];

                if (state->token != 0)
                        return state;
        }
        return NULL;
}

/* Whether a record is still this process's. The record of a thread that is gone may be another thread's by now. */
static bool is_ours(const struct tslab *pool, uint32_t record) {
        ShmRecordOwner owner = shm_record_owner(&pool->arena, record);

        return owner.state == SHM_RECORD_USED && owner.client == pool->local->client;
}

static void wait_calls(struct tslab *pool, uint32_t n_records) {
        ThreadState *state;
        uint32_t n = 0;

        for (uint32_t i = 1; (state = next_state(pool, n_records, &i));)
                /* ORDER: acq, pairs with pool_leave(); all that call did is done. */
                while (shm_load_acq(&state->busy) && is_ours(pool, i - 1))
                        wait_slice(pool, &n);
}

static void wait_operations(struct tslab *pool, uint32_t n_records) {
        ThreadState *state;
        uint32_t n = 0;

        for (uint32_t i = 1; (state = next_state(pool, n_records, &i));) {
                uint64_t *p = &state->actor.record->seq, seq = shm_load_acq(p); /* ORDER: acq; as below. */

                /* ORDER: acq, pairs with shm_record_leave(); that operation is over and seen. */
                while ((seq & 1) && shm_load_acq(p) == seq && is_ours(pool, i - 1))
                        wait_slice(pool, &n);
        }
}

/*
 * A barrier in all threads of this process. Membarrier may fail, for example if a system call filter was loaded since
 * it was registered. Then taking a page away does the same: the kernel interrupts all processors that these threads run
 * on. Where it need not (INVLPGB of AMD, since 6.15), their stores go out during the wait.
 */
static void close_barrier(void) {
        void *page;

        if (shm_membarrier_own() == 0)
                return;
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return; /* nor is there memory for anything else */
        *(volatile char *) page = 1;
        (void) mprotect(page, PAGE, PROT_READ);
        (void) munmap(page, PAGE);
        shm_await_stores();
}

/*
 * Waits until all calls are over that began before the serial became that of a closed pool. No call can begin after
 * that.
 */
static void pool_quiesce(struct tslab *pool) {
        uint32_t n_records, n = 0;
        ThreadState *state;

        close_barrier();
        while (calls_any(pool))
                wait_slice(pool, &n);
        pool_take_spare_lock(pool);
        lock_release(&pool->local->spare_lock);
        n_records = shm_arena_n_records_ever(&pool->arena); /* no state is made any more */
        wait_calls(pool, n_records);
        for (uint32_t i = 1; (state = next_state(pool, n_records, &i));)
                /* ORDER: rlx; the membarrier orders it. */
                shm_store_rlx(&state->actor.attention, UINT64_MAX);
        close_barrier();
        wait_operations(pool, n_records);
}

/* Gives back all that this process has. In a child that never attached there is nothing. */
static void pool_detach(struct tslab *pool) {
        uint32_t n_records = shm_arena_n_records_ever(&pool->arena);
        ThreadState *state;

        if (!pool->local->joined)
                return;
        for (uint32_t i = 1; (state = next_state(pool, n_records, &i));) {
                ShmActor actor;

                /* Others may have found the record of a thread that is gone, and own it. */
                if (!shm_record_inherit(&pool->arena, i - 1, pool->local->client, lock_own_number()))
                        continue;
                shm_actor_take_over(&actor, &pool->arena, i - 1);
                actor.fences = pool->local->fences != 0;
                actor.mode = pool->cache;
                shm_trie_settle(&actor);
                shm_cache_leave(&actor);
        }
        pool->host->leave(pool);
}

static void drop_pages(const struct tslab *pool, size_t from, size_t to) {
        if (from < to)
                (void) madvise((uint8_t *) pool->local + from, to - from, MADV_DONTNEED);
}

/* Drops the memory of the states, except the beginning of each, which threads may still look at. */
static void drop_states(const struct tslab *pool, uint32_t n_records) {
        size_t from = PAGE, at;
        ThreadState *state;

        static_assert(offsetof(PoolLocal, idle) < PAGE, "the locks are in the first page");
        for (uint32_t i = 1; (state = next_state(pool, n_records, &i));) {
                at = (size_t) ((uint8_t *) state - (uint8_t *) pool->local);
                drop_pages(pool, from, at / PAGE * PAGE);
                from = (at + offsetof(ShmActor, numbers) + PAGE - 1) / PAGE * PAGE;
        }
        drop_pages(pool, from, pool->local_size / PAGE * PAGE);
}

/* Puts blank memory in the arena's place. *ret: another mapping of the arena. */
static int replace_arena(ShmArena *arena, ShmArena *ret) {
        int r;

        r = shm_arena_map_again(ret, arena);
        if (r)
                return r;
        r = shm_arena_blank(arena);
        if (r)
                munmap(ret->base, ret->size);
        return r;
}

/* Leaves a closed pool's remains for threads that do not know yet that it is closed. */
static void leave_blank(struct tslab *pool) {
        struct tslab again = {}; /* the same pool, over another mapping */
        uint32_t n_records = shm_arena_n_records_ever(&pool->arena);
        int r;

        memcpy(&again, pool, offsetof(struct tslab, next)); /* the rest is under the registry's lock */
        again.serial = pool->number;
        do
                r = replace_arena(&pool->arena, &again.arena);
        while (r == -ENOMEM && registry_give_up());
        if (r == 0) {
                pool_detach(&again);
                munmap(again.arena.base, again.arena.size);
        }
        drop_states(pool, n_records);
        if (pool->arena.fd >= 0)
                close(pool->arena.fd);
        if (pool->arena.wake_fd >= 0)
                close(pool->arena.wake_fd);
        pool->arena.fd = pool->arena.wake_fd = -1;
        sampler_close(pool);
        pool->call = proto_call_free(pool->call);
        free(pool->path);
        pool->path = NULL;
        if (r == 0) {
                thread_forget_closed();
                registry_keep(pool);
        }
}

_public_ struct tslab *tslab_close(struct tslab *pool) {
        int cancel_state;

        if (!pool)
                return NULL;
        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* half closed is neither */
        thread_end_call(pool);
        if (__libc_single_threaded) {
                registry_remove(pool);
                pool_detach(pool);
                (void) pool_unref(pool);
        } else {
                registry_close(pool);
                pool_quiesce(pool);
                leave_blank(pool);
        }
        (void) pthread_setcancelstate(cancel_state, NULL);
        return NULL;
}
