/*
 * References to epochs
 *
 * Purpose: counts the processes that still want an epoch, so that the last one closes it.
 *
 * A process counts its own references, under a lock of its own. Whether it has any, and to which era, stands in the
 * client table, with the entry of the process. The entry goes with the process: one that was killed holds nothing.
 */
#include <errno.h>

#include "libclient/pool/enter.h"
#include "libclient/pool/attach.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch.h"

/* Completes the number of an epoch, which may be closed, with its era. */
static int ref_resolve(struct tslab *pool, uint32_t *epoch, ShmEpochInfo *ret) {
        int r;

        if (*epoch == TSLAB_EPOCH_CURRENT)
                *epoch = shm_epoch_current(&pool->arena);
        r = shm_epoch_get(&pool->arena, *epoch & 0xff, ret);
        if (r)
                return r;
        if (*epoch >> 8 != 0 && *epoch >> 8 != ret->era)
                return -ESTALE;
        *epoch = shm_epoch_number(ret->id, ret->era);
        return 0;
}

/* Under the lock: no other thread has taken a reference to a later era since. */
static int ref_take_locked(struct tslab *pool, uint32_t epoch) {
        PoolLocal *local = pool->local;
        ShmEpochInfo info;
        EpochRef *ref;
        int r;

        r = ref_resolve(pool, &epoch, &info);
        if (r)
                return r;
        if (info.state != SHM_EPOCH_OPEN)
                return -ESHUTDOWN;
        ref = &local->refs[info.id];
        if (ref->epoch != epoch)
                *ref = (EpochRef){ .epoch = epoch }; /* references to an era that is over are void */
        if (ref->n++ == 0)
                shm_client_hold(&pool->arena, local->client, epoch);
        return 0;
}

static int ref_take(struct tslab *pool, uint32_t epoch) {
        int r;

        (void) lock_take(&pool->local->refs_lock);
        r = ref_take_locked(pool, epoch);
        lock_release(&pool->local->refs_lock);
        return r;
}

static int ref_drop(struct tslab *pool, uint32_t epoch) {
        PoolLocal *local = pool->local;
        ShmEpochInfo info;
        EpochRef *ref;
        int r;

        r = ref_resolve(pool, &epoch, &info);
        if (r)
                return r;
        ref = &local->refs[info.id];
        (void) lock_take(&local->refs_lock);
        if (ref->epoch != epoch || ref->n == 0)
                r = -ENOENT;
        else if (--ref->n == 0)
                shm_client_release_hold(&pool->arena, local->client, info.id);
        lock_release(&local->refs_lock);
        return r ? r : (int) shm_client_count_holders(&pool->arena, epoch);
}

static int with_client(struct tslab *pool, uint32_t epoch, int (*change)(struct tslab *, uint32_t)) {
        int r;

        if (pool->is_reader)
                return -EROFS;
        r = pool_begin(pool);
        if (r)
                return r;
        r = pool_attach(pool);
        if (r == 0)
                r = change(pool, epoch);
        pool_end(pool);
        return r;
}

_public_ int tslab_epoch_ref(struct tslab *pool, uint32_t epoch) {
        return with_client(pool, epoch, ref_take);
}

_public_ int tslab_epoch_unref(struct tslab *pool, uint32_t epoch) {
        return with_client(pool, epoch, ref_drop);
}

_public_ int tslab_epoch_refs(struct tslab *pool, uint32_t epoch) {
        ShmEpochInfo info;
        int r;

        r = ref_resolve(pool, &epoch, &info);
        return r ? r : (int) shm_client_count_holders(&pool->arena, epoch);
}
