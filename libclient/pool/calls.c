/*
 * Threads in the middle of a call
 *
 * Purpose: keeps a pool open while threads use it without a record.
 *
 * Invariants
 *   1. A thread that is in a call of a pool has one slot there, with its number, and with the depth of its calls.
 *   2. The slot is taken before the thread looks whether the pool is closed; the closer issues a membarrier between its
 *      store and its look at the slots. So the thread sees that the pool is closed, or the closer sees the slot.
 *   3. A thread that ended in a call leaves its slot. The closer, and a thread that finds no free slot, ask the kernel
 *      whether such a thread exists (tgkill(2)).
 *
 * Who may do what: a thread changes its own slot; any thread takes the slot of one that ended.
 *
 * Crash: slots are memory of the process, and zeros in a forked child.
 */
#include "libclient/pool/calls.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "shm/arch/process.h"

/* While a thread is in calls, which may hold locks and must be counted off, it is not cancelled. */
static __thread struct {
        uint32_t n_calls : 31; /* sum over all pools */
        uint32_t cancels : 1; /* it could be, before the first */
} inside THREAD_MODEL;

static void keep_from_cancelling(void) {
        int state = PTHREAD_CANCEL_DISABLE;

        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        inside.cancels = state == PTHREAD_CANCEL_ENABLE;
}

static CallSlot *slot_at(const struct tslab *pool, uint32_t tid, uint32_t i) {
        return &pool->local->calls[(tid + i) % CALLS_MAX];
}

static CallSlot *find_slot(const struct tslab *pool, uint32_t tid) {
        for (uint32_t i = 0; i < CALLS_MAX; i++)
                /* ORDER: rlx; it is ours, or that of a thread that had our number. */
                if (shm_load_rlx(&slot_at(pool, tid, i)->tid) == tid)
                        return slot_at(pool, tid, i);
        return NULL;
}

/* `gone`: also one of a thread that ended. NULL: there is none. */
static CallSlot *take_free_slot(const struct tslab *pool, uint32_t tid, bool gone) {
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
                CallSlot *slot = slot_at(pool, tid, i);
                uint32_t seen = shm_load_rlx(&slot->tid); /* ORDER: rlx; the compare-and-set decides. */

                /* ORDER: acqrel; it is a full barrier on x86, elsewhere the closer's membarrier is. */
                if ((seen == 0 || seen == tid || (gone && shm_own_thread_has_ended(seen))) &&
                    shm_cas_acqrel(&slot->tid, &seen, tid)) {
                        slot->depth = 0;
                        return slot;
                }
        }
        return NULL;
}

static CallSlot *take_slot(const struct tslab *pool, uint32_t tid) {
        CallSlot *slot = take_free_slot(pool, tid, false);

        while (!slot) {
                slot = take_free_slot(pool, tid, true);
                if (!slot)
                        sched_yield(); /* more threads are in calls than there are slots */
        }
        return slot;
}

int pool_begin(struct tslab *pool) {
        uint32_t tid = lock_own_number();
        CallSlot *slot = NULL;

        if (pool_is_closed(pool)) /* or tslab_close() would wait for threads that call again and again */
                return -EBADF;
        if (inside.n_calls++ == 0)
                keep_from_cancelling();
        else
                slot = find_slot(pool, tid);
        if (!slot)
                slot = take_slot(pool, tid);
        slot->depth++;
        if (pool->local->fences)
                shm_fence_sc(); /* ORDER: sc; stands for the membarrier. */
        if (!pool_is_closed(pool))
                return 0;
        pool_end(pool);
        return -EBADF;
}

void pool_end(struct tslab *pool) {
        CallSlot *slot = find_slot(pool, lock_own_number());

        if (slot && --slot->depth == 0)
                shm_store_rel(&slot->tid, 0); /* ORDER: rel, pairs with calls_any(); all is done. */
        if (--inside.n_calls == 0 && inside.cancels)
                (void) pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

void calls_forget(struct tslab *pool) {
        CallSlot *slot = find_slot(pool, lock_own_number());

        if (slot)
                shm_store_rel(&slot->tid, 0); /* ORDER: rel, pairs with calls_any(); the call is over. */
}

bool calls_any(struct tslab *pool) {
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
                /* ORDER: acq, pairs with pool_end(); all that the call did is done. */
                uint32_t tid = shm_load_acq(&pool->local->calls[i].tid);

                if (tid != 0 && !shm_own_thread_has_ended(tid))
                        return true;
        }
        return false;
}
