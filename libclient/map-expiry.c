/* Private pools: entries of maps whose time is over are deleted by calls that change maps, a few at a time. */
#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/open.h"
#include "shm/map/expiry.h"

/* Looked at by one call: two slabs, if they have entries whose time is over. */
#define EXPIRY_SLABS 128

void pool_run_expiry_slow(struct tslab *pool) {
        ShmActor control;
        uint64_t now_ms;

        if (!shm_expiry_due(&pool->arena, &now_ms) || pool_begin(pool) < 0)
                return;
        if (pool_attach(pool) == 0 && control_begin(pool, false, &control) == 0) {
                (void) shm_expiry_step(&control, now_ms, EXPIRY_SLABS);
                control_end(pool);
        }
        pool_end(pool);
}
