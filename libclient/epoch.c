/*
 * Epochs: lookups in the arena. Changes are requests to the daemon, or are done here where the pool is
 * private.
 */

#include <errno.h>
#include <string.h>

#include "libclient/connection.h"
#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/attach.h"
#include "proto/text.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"

#define CLOSE_WAIT_MSEC 200

static_assert(TSLAB_EPOCH_CURRENT == SHM_EPOCH_CURRENT, "one number for both");
static_assert(TSLAB_LABEL_SIZE == SHM_LABEL_SIZE && TSLAB_LABEL_SIZE == PROTO_LABEL_MAX + 1,
              "one limit for all");
static_assert((int) TSLAB_EPOCH_OPEN == (int) SHM_EPOCH_OPEN &&
                      (int) TSLAB_EPOCH_CLOSING == (int) SHM_EPOCH_CLOSING &&
                      (int) TSLAB_EPOCH_DRAINED == (int) SHM_EPOCH_DRAINED,
              "one number for both");

_public_ int tslab_epoch_current(struct tslab *pool, uint32_t *ret_epoch) {
        *ret_epoch = shm_epoch_current(&pool->arena);
        return 0;
}

_public_ int tslab_epoch_info(struct tslab *pool, uint32_t epoch, struct tslab_epoch_info *info) {
        struct tslab_epoch_info full = {};
        ShmEpochInfo shm;
        size_t size = info->size;
        int r;

        if (size < sizeof(info->size) + sizeof(info->epoch))
                return -EINVAL;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = shm_epoch_get(&pool->arena, epoch & 0xff, &shm);
        if (r)
                return r;
        if (epoch >> 8 != 0 && epoch >> 8 != shm.era)
                return -ESTALE;
        full.epoch = shm_epoch_number(shm.id, shm.era);
        full.state = shm.state;
        full.current = shm.current;
        full.reserved = shm.flags & SHM_EPOCH_RESERVED;
        memcpy(full.label, shm.label, sizeof(full.label));
        full.opened_usec = shm.opened_usec;
        full.closed_usec = shm.closed_usec;
        full.reclaimed_bytes = shm.reclaimed_size;
        full.size = size;
        if (size > sizeof(full)) /* fields of a later version are 0 */
                memset((uint8_t *) info + sizeof(full), 0, size - sizeof(full));
        memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
        return 0;
}

/* Asks the daemon. */
static int epoch_ask(struct tslab *pool, ProtoRequest *request, ProtoReply **ret_reply) {
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

static int epoch_call_begin(struct tslab *pool, ShmActor *ret_control) {
        int r;

        r = pool_attach(pool);
        return r ? r : control_begin(pool, true, ret_control);
}

/* Where no id is free, an epoch that is yet to be revoked, or emptied, may give one after that. */
static int find_id(ShmActor *control, int (*find)(const ShmArena *arena, uint32_t *ret), uint32_t *ret) {
        int r;

        r = find(control->arena, ret);
        if (r != -ENOSPC)
                return r;
        (void) control_run_all(control);
        return find(control->arena, ret);
}

/* Slabs of earlier eras of the id that comes next go first: see shm_epoch_advance(). */
static int advance_here(ShmActor *control, uint32_t *ret_epoch) {
        uint32_t next;
        int r;

        r = find_id(control, shm_epoch_next, &next);
        if (r == 0 && !shm_epoch_is_drained(control->arena, next))
                r = control_close(control, next, 0, false);
        return r ? r : shm_epoch_advance(control->arena, ret_epoch);
}

/* These two return 1 if they advanced, and 0 where another epoch than `expected` (0: any) was current. */
static int advance_private(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        ShmActor control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        *ret_epoch = shm_epoch_current(&pool->arena);
        if (expected == 0 || expected == *ret_epoch) {
                r = advance_here(&control, ret_epoch);
                r = r ? r : 1;
        }
        control_end(pool);
        return r;
}

static int advance_daemon(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;
        int r;

        body.expected = expected;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        r = epoch_ask(pool, &request, &reply);
        if (r)
                return r;
        r = epoch_take(pool, reply->epoch_advance->epoch, ret_epoch);
        return r ? r : !reply->epoch_advance->unexpected;
}

static int epoch_advance(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        uint32_t epoch;
        int r;

        r = pool_begin(pool);
        if (r)
                return r;
        r = pool->is_private ? advance_private(pool, expected, &epoch)
                             : advance_daemon(pool, expected, &epoch);
        pool_end(pool);
        if (r >= 0 && ret_epoch)
                *ret_epoch = epoch;
        return r;
}

_public_ int tslab_epoch_advance(struct tslab *pool, uint32_t *ret_epoch) {
        int r;

        r = epoch_advance(pool, 0, ret_epoch);
        return r < 0 ? r : 0;
}

_public_ int tslab_epoch_advance_from(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        if (expected == TSLAB_EPOCH_CURRENT || expected >> 8 == 0 ||
            (expected & 0xff) >= pool->arena.n_epochs)
                return -EINVAL;
        return epoch_advance(pool, expected, ret_epoch);
}

static int reserve_private(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        ShmActor control;
        uint32_t spare;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = find_id(&control, shm_epoch_spare, &spare);
        if (r == 0)
                r = control_close(&control, spare, 0, false);
        if (r == 0)
                r = lease ? shm_epoch_lease(&pool->arena, spare, label, pool->local->client, ret_epoch)
                          : shm_epoch_reserve(&pool->arena, spare, label, ret_epoch);
        control_end(pool);
        return r;
}

static int reserve_daemon(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;
        int r;

        body.label = (char *) (label ? label : "");
        body.lease = lease;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        r = epoch_ask(pool, &request, &reply);
        return r ? r : epoch_take(pool, reply->epoch_reserve->epoch, ret_epoch);
}

static int epoch_reserve(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        int r;

        if (!proto_text_is_clean(label, PROTO_LABEL_MAX))
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        r = pool->is_private ? reserve_private(pool, label, lease, ret_epoch)
                             : reserve_daemon(pool, label, lease, ret_epoch);
        pool_end(pool);
        return r;
}

_public_ int tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch) {
        return epoch_reserve(pool, label, false, ret_epoch);
}

_public_ int tslab_epoch_lease(struct tslab *pool, const char *label, uint32_t *ret_epoch) {
        return epoch_reserve(pool, label, true, ret_epoch);
}

static int label_private(struct tslab *pool, uint32_t epoch, const char *label) {
        ShmActor control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = shm_epoch_label(&pool->arena, epoch, label);
        control_end(pool);
        return r;
}

static int label_daemon(struct tslab *pool, uint32_t epoch, const char *label) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochLabel body = TSLAB__EPOCH_LABEL__INIT;

        body.epoch = epoch;
        body.label = (char *) (label ? label : "");
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LABEL;
        request.epoch_label = &body;
        return epoch_ask(pool, &request, &reply);
}

_public_ int tslab_epoch_label(struct tslab *pool, uint32_t epoch, const char *label) {
        int r;

        if (!proto_text_is_clean(label, PROTO_LABEL_MAX))
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = pool->is_private ? label_private(pool, epoch, label) : label_daemon(pool, epoch, label);
        pool_end(pool);
        return r;
}

static int close_private(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        ShmActor control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = control_close(&control, epoch, flags, true);
        control_end(pool);
        return r;
}

static int close_daemon(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.wait_msec = CLOSE_WAIT_MSEC;
        body.revoke = flags & TSLAB_CLOSE_REVOKE;
        body.older = flags & TSLAB_CLOSE_OLDER;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        return epoch_ask(pool, &request, &reply);
}

_public_ int tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        int r;

        if ((flags & ~(TSLAB_CLOSE_REVOKE | TSLAB_CLOSE_OLDER)) || flags == TSLAB_CLOSE_OLDER)
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = pool->is_private ? close_private(pool, epoch, flags) : close_daemon(pool, epoch, flags);
        pool_end(pool);
        return r;
}
