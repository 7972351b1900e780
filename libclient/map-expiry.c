/*
 * Private pools: entries of maps that expired
 *
 * Purpose: calls that change maps delete entries whose time is over.
 *
 * Invariants
 *   1. A call that does so is long, so few do. Each works for a slice of time, and the calls of its process that
 *      follow have as long for themselves. Shorter slices would be more long calls. A put that would fail for want of
 *      memory works at once: all of it may be in entries that expired while nobody wrote.
 *   2. Of several such puts one works, and the others sleep for a slice: its memory is for them, too. None waits for
 *      a dead process, and map_put() has each give up after some slices.
 *
 * Who may do what: any thread that changed a map, outside of its operation, if nobody else is at control work.
 *
 * Crash: see shm/map/lifetime.c.
 */
#include <errno.h>
#include <time.h>

#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/open.h"
#include "proto/deadline.h"
#include "shm/map/expiry.h"

#define EXPIRY_SLABS 128 /* looked at between two looks at the clock: two slabs whose entries are over */
#define EXPIRY_SLICE_USEC 250

/* -EBUSY: somebody else is at control work; the attach errors. */
static int run_slice(struct tslab *pool, uint64_t now_ms, uint64_t now_usec) {
        ShmActor control;
        int r;

        r = pool_attach(pool) ?: control_begin(pool, false, &control);
        if (r)
                return r;
        while (!shm_expiry_step(&control, now_ms, EXPIRY_SLABS))
                if (proto_now_usec() - now_usec >= EXPIRY_SLICE_USEC)
                        break;
        control_end(pool);
        return 0;
}

void pool_run_expiry_slow(struct tslab *pool) {
        uint64_t *next = &pool->expiry_usec, now_ms, now_usec;

        if (!shm_expiry_due(&pool->arena, false, &now_ms))
                return;
        now_usec = proto_now_usec();
        /* ORDER: rlx; two threads at once do no harm. */
        if (now_usec < shm_load_rlx(next) || pool_begin(pool) < 0)
                return;
        (void) run_slice(pool, now_ms, now_usec);
        shm_store_rlx(next, proto_now_usec() + EXPIRY_SLICE_USEC); /* ORDER: rlx; as above. */
        pool_end(pool);
}

bool pool_expire(struct tslab *pool) {
        const struct timespec slice = { .tv_nsec = EXPIRY_SLICE_USEC * 1000 };
        uint64_t now_ms;
        int r;

        if (!pool->is_private || !shm_expiry_due(&pool->arena, true, &now_ms) || pool_begin(pool) < 0)
                return false;
        r = run_slice(pool, now_ms, proto_now_usec());
        if (r == -EBUSY && !control_owner_is_dead(pool)) {
                nanosleep(&slice, NULL);
                r = 0;
        }
        pool_end(pool);
        return r == 0;
}
