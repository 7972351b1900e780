/*
 * Reaping the records of processes that ended without closing a private pool.
 *
 * Purpose: a daemon's work after a client's death, done by the caller of tslab_reap().
 *
 * Invariants
 *   1. An entry becomes DEAD by one compare-and-set from the identity of a process that was seen to be gone. So it is
 *      not another process's by then.
 *
 * Who may do what: see libclient/control.c.
 *
 * Crash: the next owner of control work finds the intents of a dead reaper in record 0, and entries that are DEAD.
 */
#include <errno.h>

#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/attach.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-open.h"
#include "shm/owner/owner.h"
#include "shm/slab/free-count.h"

static uint32_t mark_dead(struct tslab *pool) {
        uint32_t n_dead = 0;
        ShmClientInfo info;

        for (uint32_t i = 0; i < pool->arena.n_records; i++) {
                if (shm_client_get(&pool->arena, i, &info) || i == pool->local->client ||
                    (info.state != SHM_CLIENT_DEAD &&
                     (!shm_client_is_gone(&info) || !shm_client_end_gone(&pool->arena, &info))))
                        continue;
                (void) shm_client_release_records(&pool->arena, i);
                (void) shm_epoch_end_leases(&pool->arena, i);
                n_dead++;
        }
        return n_dead;
}

static int remove_dead(struct tslab *pool) {
        ShmClientInfo info;
        int n = 0;

        for (uint32_t i = 0; i < pool->arena.n_records; i++) {
                if (shm_client_get(&pool->arena, i, &info) || info.state != SHM_CLIENT_DEAD ||
                    shm_client_release_records(&pool->arena, i) > 0)
                        continue;
                shm_client_remove(&pool->arena, i);
                n++;
        }
        return n;
}

static int reap_process(struct tslab *pool) {
        ShmActor control;
        uint32_t n_dead;
        int r;

        r = pool_attach(pool);
        if (r == 0)
                r = control_begin(pool, true, &control);
        if (r)
                return r;
        n_dead = mark_dead(pool);
        /* Also if nobody is dead: an earlier pass, or an earlier maintainer, may have left slots in flight. */
        r = control_run_all(&control);
        if (r == 0 && n_dead > 0) {
                /* Dead threads may have left n_free wrong: the pool would retain too much, or too little. */
                pool->local->recount = !shm_free_recount(&pool->arena);
                r = remove_dead(pool);
        }
        control_end_all(pool); /* the dead may have been sweeping */
        return r;
}

_public_ int tslab_reap(struct tslab *pool) {
        int r;

        if (!pool->is_private)
                return -EOPNOTSUPP;
        r = pool_begin(pool);
        if (r)
                return r;
        r = reap_process(pool);
        pool_end(pool);
        return r;
}

_public_ int tslab_control_owner(struct tslab *pool) {
        ShmClientInfo info;
        uint64_t word;

        if (!pool->is_private)
                return -EOPNOTSUPP;
        if (pool_is_closed(pool))
                return -EBADF;
        word = shm_owner_load(&pool->arena);
        if (shm_owner_state(word) != SHM_OWNER_HELD ||
            shm_client_get(&pool->arena, shm_owner_client(word), &info) < 0)
                return 0;
        return info.pid;
}
