/*
 * Attaching: this process, or a forked child, to a pool that it has mapped
 *
 * Purpose: to give a process an entry in the arena's client table, and a spare record.
 *
 * The pool's host makes the entry. The spare record is for
 * threads that find no record of their own.
 *
 * Invariants
 *   1. Where `attached` is 1, `client`, `spare`, `fences` and `number` are set. It goes from 0 to 1 once in a
 *      process; in a forked child the kernel wipes the PoolLocal, so that the child attaches for itself.
 *   2. `joined` is 1 from the moment that the entry `client` is this process's. If attaching fails after that, the
 *      next try uses the same entry.
 *   3. The spare record has thread id 0, and ends with the process, not with the thread that took it; or with a thread
 *      that ends in a call and uses it. `spare` is 0 from then on until the next thread takes another.
 *   4. A record's flags say whether its thread fences for itself before the thread's first operation.
 *
 * Who may do what: the thread that opens the pool does all alone, until registry_add(). Afterwards a thread attaches
 *   under attach_lock, and any thread reads `attached`. Each thread takes its own record.
 *
 * Crash: a process that dies with an entry, or with records, leaves both in the arena. The daemon finds the process
 *   gone, repairs the records and frees the entry; in a private pool tslab_reap() of another process does so.
 */
#include "libclient/pool/attach.h"

#include <errno.h>
#include <string.h>

#include "libclient/pool/host.h"
#include "libclient/pool/registry.h"
#include "shm/arena/client.h"
#include "shm/maintain/freeze.h"

static bool in_share(const struct tslab *pool, uint32_t n) {
        return pool->is_operator || shm_client_in_share(&pool->arena, pool->local->client, n);
}

static void begin_state(struct tslab *pool, ThreadState *state, uint32_t record) {
        /* First: the thread that had the record writes to the state until it gives up the lock that this takes. */
        uint64_t token = registry_token();
        ShmActor *actor = &state->actor;

        memset(state, 0, sizeof(*state));
        shm_actor_take_over(actor, &pool->arena, record);
        actor->fences = pool->local->fences != 0;
        actor->mode = pool->cache;
        actor->keeps_path = true;
        /* ORDER: rel; the maintainer asks whether this thread fences after it found the record. */
        shm_store_rel(&actor->record->flags, actor->fences ? SHM_RECORD_FENCES : 0);
        state->token = token;
}

int pool_take_record(struct tslab *pool, uint32_t tid, ThreadState **ret) {
        uint32_t record;
        int r;

        if (!in_share(pool, 1))
                return -EDQUOT;
        r = shm_record_take(&pool->arena, pool->local->client, tid, &record);
        if (r)
                return r;
        if (!in_share(pool, 0)) { /* other threads took records at the same time */
                (void) shm_record_set_unused(&pool->arena, record);
                return -EDQUOT;
        }
        *ret = &pool->local->threads[record];
        begin_state(pool, *ret, record);
        return 0;
}

/* Takes the spare record. It belongs to the process, not to this thread, which may end first. */
static int take_spare(struct tslab *pool) {
        PoolLocal *local = pool->local;
        ThreadState *state;
        int r = pool_take_record(pool, lock_own_number(), &state);

        if (r < 0)
                return r == -ENOSPC ? -EUSERS : r;
        /* Until here it ends with the thread. */
        (void) shm_record_inherit(&pool->arena, state->actor.id, local->client, 0);
        /* ORDER: rlx; read under the lock, or compared with records of others. */
        shm_store_rlx(&local->spare, state->actor.id);
        return 0;
}

int pool_keep_spare(struct tslab *pool) {
        return pool->local->spare != 0 ? 0 : take_spare(pool);
}

/* This process is in the client table; under attach_lock, or before anyone knows the pool. */
static int finish_attach(struct tslab *pool) {
        int r;

        if (!pool->is_reader) {
                pool->local->fences = shm_membarrier_register() < 0;
                r = pool_keep_spare(pool);
                if (r)
                        return r;
        }
        pool->local->number = registry_token();
        /* ORDER: rel, pairs with pool_attach(); all else is set before. */
        shm_store_rel(&pool->local->attached, 1);
        return 0;
}

static int attach_locked(struct tslab *pool) {
        PoolLocal *local = pool->local;
        int r;

        if (!local->joined) {
                r = pool->host->join(pool, &local->client);
                if (r)
                        return r;
                local->joined = 1;
        }
        return finish_attach(pool);
}

int pool_attach(struct tslab *pool) {
        PoolLocal *local = pool->local;
        int r = 0;

        /* ORDER: acq, pairs with finish_attach(); client, spare and fences are set. */
        if (shm_load_acq(&local->attached))
                return 0;
        (void) lock_take(&local->attach_lock);
        if (!local->attached)
                r = attach_locked(pool);
        lock_release(&local->attach_lock);
        return r;
}
