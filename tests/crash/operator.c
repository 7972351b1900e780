#include "tests/crash/operator.h"

#include "libclient/pool/pool.h"
#include "shm/epoch/epoch.h"
#include "tests/util/daemon-fixture.h"

uint32_t operator_reserve(ProtoCall *control) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;

        body.label = (char *) "bursts";
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        reply = daemon_call(control, &request, NULL);
        return reply->epoch_reserve->epoch;
}

void operator_revoke(ProtoCall *control, uint32_t epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.revoke = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        reply = daemon_call(control, &request, NULL);
}

static bool is_reserved(const ShmArena *arena, uint32_t id) {
        ShmEpochInfo info;

        return shm_epoch_get(arena, id, &info) == 0 && (info.flags & SHM_EPOCH_RESERVED);
}

/* An epoch that was closed a while ago. */
static uint32_t old_epoch(const ShmArena *arena, uint32_t ahead) {
        uint32_t id = (shm_epoch_current(arena) + ahead) % OPERATOR_EPOCHS;

        while (is_reserved(arena, id))
                id = (id + OPERATOR_EPOCHS - 1) % OPERATOR_EPOCHS;
        return id;
}

static void close_epoch(ProtoCall *control, uint32_t epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_close(control, epoch);
}

void operator_daemon(ProtoCall *control, const ShmArena *arena, uint64_t random) {
        switch (random % 5) {
        case 0:
                (void) daemon_advance(control);
                break;
        case 1:
                close_epoch(control, old_epoch(arena, 12));
                break;
        case 2:
                operator_revoke(control, old_epoch(arena, 10));
                break;
        case 3:
                (void) daemon_trim(control);
                break;
        }
}

/* -EBUSY: a worker is at control work itself, or was when it was stopped. */
void operator_private(struct tslab *pool, uint64_t random) {
        uint32_t ahead = 10 + (uint32_t) (random % 3);

        if (random % 5 < 2)
                (void) tslab_epoch_advance(pool, NULL);
        else
                (void) tslab_epoch_close(pool, old_epoch(&pool->arena, ahead),
                                         random % 5 == 2 ? TSLAB_CLOSE_REVOKE : 0);
}
