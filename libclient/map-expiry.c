/*
 * Private pools: entries of maps that expired
 *
 * Purpose: calls that change maps delete entries whose time is over.
 *
 * Invariants
 *   1. A call that does so is long, so few do. Each works for a slice of time, and the calls of its process that
 *      follow have as long for themselves. Shorter slices would be more long calls.
 *
 * Who may do what: any thread that changed a map, outside of its operation, if nobody else is at control work.
 *
 * Crash: see shm/map/lifetime.c.
 */
#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/open.h"
#include "proto/deadline.h"
#include "shm/map/expiry.h"

#define EXPIRY_SLABS 128 /* looked at between two looks at the clock: two slabs whose entries are over */
#define EXPIRY_SLICE_USEC 250

static void run_slice(struct tslab *pool, uint64_t now_ms, uint64_t now_usec) {
        ShmActor control;

        if (pool_attach(pool) != 0 || control_begin(pool, false, &control) != 0)
                return;
        while (!shm_expiry_step(&control, now_ms, EXPIRY_SLABS))
                if (proto_now_usec() - now_usec >= EXPIRY_SLICE_USEC)
                        break;
        control_end(pool);
}

void pool_run_expiry_slow(struct tslab *pool) {
        uint64_t *next = &pool->expiry_usec, now_ms, now_usec;

        if (!shm_expiry_due(&pool->arena, &now_ms))
                return;
        now_usec = proto_now_usec();
        /* ORDER: rlx; two threads at once do no harm. */
        if (now_usec < shm_load_rlx(next) || pool_begin(pool) < 0)
                return;
        run_slice(pool, now_ms, now_usec);
        shm_store_rlx(next, proto_now_usec() + EXPIRY_SLICE_USEC); /* ORDER: rlx; as above. */
        pool_end(pool);
}
