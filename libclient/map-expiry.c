/* Private pools: entries of maps whose time is over are deleted by calls that change maps, a few at a time. */
#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/open.h"
#include "shm/map/expiry.h"

/*
 * Slabs that one call looks at, see shm_expiry_step(), or four entries that it deletes: it takes about a microsecond
 * longer for them. Where calls are rare, each does more.
 */
#define EXPIRY_SLABS 128
#define EXPIRY_SLABS_RARE 4096
#define RARE_MS 4

static uint32_t n_slabs_now(struct tslab *pool, uint64_t now_ms) {
        uint64_t *last_ms = &pool->local->expiry_ms;

        if (now_ms - *last_ms < RARE_MS)
                return EXPIRY_SLABS;
        *last_ms = now_ms;
        return EXPIRY_SLABS_RARE;
}

void pool_run_expiry_slow(struct tslab *pool) {
        ShmActor control;
        uint64_t now_ms;

        if (!shm_expiry_due(&pool->arena, &now_ms) || pool_begin(pool) < 0)
                return;
        if (pool_attach(pool) == 0 && control_begin(pool, false, &control) == 0) {
                (void) shm_expiry_step(&control, now_ms, n_slabs_now(pool, now_ms));
                control_end(pool);
        }
        pool_end(pool);
}
