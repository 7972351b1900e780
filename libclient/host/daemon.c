/*
 * Hosts: a daemon
 *
 * Purpose: asks tslabd, where a call of the pool is not for the process itself to do.
 *
 * Invariants
 *   1. A daemon that did not answer is not asked to attach again for a while: each thread would wait for its whole time
 *      limit, one after the other.
 *   2. Threads that want caches emptied each have a number of their own, and the daemon tells how many it has served.
 *
 * Who may do what: any thread that has attached; it waits under `call_lock` for the daemon's answer.
 *
 * Crash: the daemon finds the process gone, and does the work that it left.
 */
#include "libclient/host/daemon.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "libclient/pool/attach.h"
#include "libclient/pool/calls.h"
#include "libclient/host/connection.h"
#include "libclient/pool/sampler.h"
#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/arena/root.h"
#include "shm/slab/slab.h"

#define MAP_PREFIX "map."
#define SILENT_USEC UINT64_C(10000000)
#define ASK_WAIT_USEC 20000
#define ASK_SLICE_USEC 100
#define CLOSE_WAIT_MSEC 200

static int daemon_join(struct tslab *pool, uint32_t *ret_client) {
        PoolLocal *local = pool->local;
        int r;

        if (proto_now_usec() < local->silent_usec)
                return -ETIMEDOUT;
        r = connection_attach_child(pool, ret_client);
        if (r == -ETIMEDOUT)
                local->silent_usec = proto_deadline(SILENT_USEC);
        if (r == 0)
                sampler_begin(pool);
        return r;
}

static void daemon_leave(struct tslab *pool) {
        if (!pool->is_reader)
                shm_client_leave(&pool->arena, pool->local->client);
}

static bool is_stale(const struct tslab *pool) {
        return shm_load_rlx(&pool->stale) != 0; /* ORDER: rlx; says nothing of other memory. */
}

/* A thread that is in a control call finds out by itself. */
static bool daemon_is_stale(struct tslab *pool) {
        bool left;

        if (is_stale(pool) || pool_begin(pool) < 0)
                return is_stale(pool);
        if (lock_try(&pool->local->call_lock, &left)) {
                connection_look(pool);
                lock_release(&pool->local->call_lock);
        }
        pool_end(pool);
        return is_stale(pool);
}

/* The daemon freezes, empties caches, and says so. */
static bool daemon_empty_caches(struct tslab *pool) {
        const struct timespec slice = { .tv_nsec = ASK_SLICE_USEC * 1000 };
        ShmHeader *header = pool->arena.header;
        /* ORDER: acqrel; each asker has a number of its own. */
        uint64_t wanted = shm_add_acqrel(&header->caches_wanted.value, 1) + 1, begin = proto_now_usec();

        shm_wake(&pool->arena);
        while (proto_now_usec() - begin < ASK_WAIT_USEC) {
                nanosleep(&slice, NULL);
                /* ORDER: acq, pairs with shm_maintain_step(); the slots are back in their slabs. */
                if ((int64_t) (shm_load_acq(&header->caches_given.value) - wanted) >= 0)
                        return true;
        }
        return false;
}

/* Asks the daemon. */
static int ask_daemon(struct tslab *pool, ProtoRequest *request, ProtoReply **ret_reply) {
        int r;

        if (pool->is_reader)
                return -EROFS;
        r = pool_attach(pool);
        if (r)
                return r;
        connection_take_lock(pool);
        r = connection_ask(pool, request, ret_reply);
        lock_release(&pool->local->call_lock);
        return r;
}

/* Takes the epoch of a reply. -EPROTO: the pool has no such epoch. */
static int epoch_take(const struct tslab *pool, uint32_t epoch, uint32_t *ret_epoch) {
        if ((epoch & 0xff) >= pool->arena.n_epochs || epoch >> 8 == 0)
                return -EPROTO;
        *ret_epoch = epoch;
        return 0;
}

static int daemon_advance(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;
        int r;

        body.expected = expected;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        r = ask_daemon(pool, &request, &reply);
        if (r)
                return r;
        r = epoch_take(pool, reply->epoch_advance->epoch, ret_epoch);
        return r ? r : !reply->epoch_advance->unexpected;
}

static int daemon_reserve(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;
        int r;

        body.label = (char *) (label ? label : "");
        body.lease = lease;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        r = ask_daemon(pool, &request, &reply);
        return r ? r : epoch_take(pool, reply->epoch_reserve->epoch, ret_epoch);
}

static int daemon_label(struct tslab *pool, uint32_t epoch, const char *label) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochLabel body = TSLAB__EPOCH_LABEL__INIT;

        body.epoch = epoch;
        body.label = (char *) (label ? label : "");
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LABEL;
        request.epoch_label = &body;
        return ask_daemon(pool, &request, &reply);
}

static int daemon_close(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.wait_msec = CLOSE_WAIT_MSEC;
        body.revoke = flags & TSLAB_CLOSE_REVOKE;
        body.older = flags & TSLAB_CLOSE_OLDER;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        return ask_daemon(pool, &request, &reply);
}

/* The daemon finds the map by its name. -EIDRM: another map has the name by now, or none. */
static int daemon_set_map(struct tslab *pool, ShmTrie *trie, const struct tslab_map_options *o,
                          uint32_t set) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__MapSet body = TSLAB__MAP_SET__INIT;
        char root[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        int r;

        if (trie->map == 0 || shm_root_at(&pool->arena, trie->map - 1, root, &handle) != 0 ||
            handle != trie->root)
                return -EIDRM;
        body.map = root + strlen(MAP_PREFIX);
        body.set = set;
        body.limit_bytes = o->limit_bytes;
        body.ttl_msec = o->ttl_ms;
        body.stale_msec = o->stale_ms;
        body.value_max_bytes = o->value_max;
        body.evict = (Tslab__MapEvict) o->evict;
        request.body_case = TSLAB__REQUEST__BODY_MAP_SET;
        request.map_set = &body;
        r = ask_daemon(pool, &request, &reply);
        return r == -ENOENT ? -EIDRM : r;
}

/* The daemon does the rest by itself. */

static void leave_to_daemon(struct tslab *pool) {
}

static void leave_thaw_to_daemon(struct tslab *pool, const ThreadState *thread) {
}

static void leave_slab_to_daemon(struct tslab *pool, uint32_t slab) {
}

static bool nothing_deleted(struct tslab *pool, HostRetry *retry) {
        return false;
}

static bool nothing_reaped(struct tslab *pool) {
        return false;
}

static bool nobody_has_died(const struct tslab *pool, uint32_t client) {
        return false;
}

static int not_private(struct tslab *pool) {
        return -EOPNOTSUPP;
}

static void wake_for_sweep(struct tslab *pool) {
        shm_wake(&pool->arena);
}

const Host host_daemon = {
        .join = daemon_join,
        .leave = daemon_leave,
        .is_stale = daemon_is_stale,
        .thread_ends = leave_to_daemon,
        .has_died = nobody_has_died, /* the client table says so soon */
        .sleep_usec = HOST_SLEEP_USEC,
        .thaw = leave_thaw_to_daemon,
        .calls = leave_to_daemon,
        .drained = leave_to_daemon,
        .expires = leave_to_daemon,
        .slab_freed = leave_slab_to_daemon,
        .empty_caches = daemon_empty_caches,
        .delete_expired = nothing_deleted,
        .reap_threads = nothing_reaped,
        .advance = daemon_advance,
        .reserve = daemon_reserve,
        .label = daemon_label,
        .close = daemon_close,
        .set_map = daemon_set_map,
        .sweep_maps = wake_for_sweep,
        .reap = not_private,
        .control_owner = not_private,
};
