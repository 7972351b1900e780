/*
 * Private pools: entries of maps that expired
 *
 * Purpose: calls that change maps delete expired entries.
 *
 * Invariants
 *   1. A call that deletes expired entries is long, so few calls do. Each works for a slice of time, and then the calls
 *      of its process have as long for themselves. Shorter slices would mean more long calls, and after each of them
 *      the next calls find their caches cold: while 10^6 entries expire in a second, p99.99 of other calls is 30 to 50
 *      us with slices of 1 ms, and 270 with 250 us; p99.9 grows by a factor of 1.3, and of 1.5. A call that would fail
 *      for lack of memory, or of room below its map's limit, works at once, and not for long: entries that expired
 *      while nobody wrote may have that memory.
 *   2. Instead of such a slice, a call does a slice of a sweep of maps if one is due. A call that would fail does not.
 *   3. Of several calls that would fail one works, and the others sleep for a slice: the memory that it finds is for
 *      them, too. After that they delete entries themselves, which needs no control work: a process that is stopped in
 *      the middle of it delays nobody. Each call gives up after some slices.
 *
 * Who may do what: any thread that changed a map, outside of its operation, if nobody else does control work.
 *
 * Crash: see shm/map/state/lifetime.c.
 */
#include "libclient/host/private-expiry.h"

#include <errno.h>
#include <time.h>

#include "libclient/pool/attach.h"
#include "libclient/host/control.h"
#include "libclient/pool/enter.h"
#include "proto/deadline.h"
#include "shm/map/entry/expiry.h"
#include "shm/owner/owner.h"

#define EXPIRY_SLABS 128 /* looked at between two looks at the clock: two slabs whose entries are over */
#define SLICE_USEC 1000
#define URGENT_SLICE_USEC 250 /* a call that would fail has so long */
#define SLICES_MAX 64 /* for one call: others may take the memory of entries that it deletes */
#define VAIN_MAX 2 /* looks: entries may end between one look and the call's next attempt, which fails */

/* With `sweeps`, it sweeps maps instead, if that is due. -EBUSY: somebody else does control work; the attach errors. */
static int run_slice(struct tslab *pool, bool sweeps, uint64_t now_ms, uint64_t until_usec) {
        ShmActor *control;
        int r;

        r = pool_attach(pool) ?: control_begin(pool, false, &control);
        if (r)
                return r;
        if (!sweeps || !control_sweep(control))
                while (!shm_expiry_step(control, now_ms, EXPIRY_SLABS))
                        if (proto_now_usec() >= until_usec)
                                break;
        control_end(pool);
        return 0;
}

void expiry_run(struct tslab *pool) {
        uint64_t *next = &pool->expiry_usec, now_ms, now_usec;

        if (!shm_expiry_due(&pool->arena, false, &now_ms))
                return;
        now_usec = proto_now_usec();
        /* ORDER: rlx; two threads at once do no harm. */
        if (now_usec < shm_load_rlx(next) || pool_begin(pool) < 0)
                return;
        (void) run_slice(pool, true, now_ms, now_usec + SLICE_USEC);
        shm_store_rlx(next, proto_now_usec() + SLICE_USEC); /* ORDER: rlx; as above. */
        pool_end(pool);
}

/*
 * Deletes without control work. The look is in vain if it has seen all slabs since it deleted an entry. If it looked at
 * each once, others would take what it gave back while its thread waits for a processor, and it would fail though these
 * entries are over by now, too.
 */
static void delete_expired(struct tslab *pool, uint64_t now_ms, HostRetry *retry) {
        uint64_t until_usec = proto_deadline(URGENT_SLICE_USEC),
                 n_ever = shm_arena_n_slabs_ever(&pool->arena);
        bool deleted = false;
        ThreadState *thread;

        if (pool_enter(pool, &thread) < 0) {
                retry->n_vain++;
                return;
        }
        while (retry->n_slabs < n_ever && proto_now_usec() < until_usec)
                retry->n_slabs += shm_expiry_help(&thread->actor, now_ms, EXPIRY_SLABS, &deleted);
        pool_leave(pool, thread);
        if (deleted)
                retry->n_vain = 0;
        else if (retry->n_slabs >= n_ever)
                retry->n_vain++;
        if (deleted || retry->n_slabs >= n_ever)
                retry->n_slabs = 0;
}

/*
 * Where somebody else does control work, it sleeps for as long as a slice, and then helps: the other one may stand
 * still.
 */
static void run_slice_at_once(struct tslab *pool, HostRetry *retry) {
        const struct timespec slice = { .tv_nsec = URGENT_SLICE_USEC * 1000 };
        bool busy = shm_owner_state(shm_owner_load(&pool->arena)) == SHM_OWNER_HELD;
        uint64_t now_ms = 0;
        int r;

        /* An owner in the middle of a pass has put the earliest end aside. */
        if ((!shm_expiry_due(&pool->arena, true, &now_ms) && !busy) || now_ms == 0 || pool_begin(pool) < 0) {
                retry->n_vain++;
                return;
        }
        r = run_slice(pool, false, now_ms, proto_deadline(URGENT_SLICE_USEC));
        pool_end(pool);
        if (r == -EBUSY && retry->n_slices > 0)
                delete_expired(pool, now_ms, retry);
        else if (r == -EBUSY)
                nanosleep(&slice, NULL);
        else
                retry->n_vain = r == 0 ? 0 : retry->n_vain + 1;
}

/* Whether any entry has, or had, an end. */
static bool has_expired(const struct tslab *pool) {
        const ShmExpiry *expiry = &pool->arena.header->expiry;

        return shm_hint_load(&expiry->first) != 0 || shm_hint_load(&expiry->begun) != 0;
}

bool expiry_delete(struct tslab *pool, HostRetry *retry) {
        if (retry->n_slices >= SLICES_MAX || retry->n_vain >= VAIN_MAX || !has_expired(pool))
                return false;
        run_slice_at_once(pool, retry);
        retry->n_slices++;
        /*
         * True is also right after one look in vain: the call that failed may have deleted all that expired, at its
         * end.
         */
        return retry->n_vain < VAIN_MAX;
}
