#include "daemon/request/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/epoch/epoch.h"

void request_refuse_memory(Session *session, uint64_t id) {
        session_refuse(session, id, -ENOMEM, "tslabd is out of memory");
}

/* The core tells an era that is over and one that has not begun by the same error. */
static void refuse_era(const Requests *requests, Session *session, uint64_t id, uint32_t epoch,
                       uint32_t era) {
        ShmEpochInfo info = {};

        if (shm_epoch_get(&requests->pool->arena, epoch, &info) == 0 && shm_era_is_before(info.era, era))
                session_refuse(session, id, -ESTALE, "era %u of epoch %u has not begun: the newest is %u",
                               era, epoch, info.era);
        else
                session_refuse(session, id, -ESTALE, "era %u of epoch %u is over", era, epoch);
}

void request_refuse_epoch(const Requests *requests, Session *session, uint64_t id, int error,
                          uint32_t number) {
        uint32_t epoch = number & 0xff, era = number >> 8;

        switch (error) {
        case -ESTALE:
                refuse_era(requests, session, id, epoch, era);
                break;
        case -EINVAL:
                session_refuse(session, id, error, "there is no epoch %u: this pool has 0 to %u", epoch,
                               requests->pool->arena.n_epochs - 1);
                break;
        case -ENOSPC:
                session_refuse(
                        session, id, error,
                        "no epoch is free: the others are reserved, hold objects, or are being revoked");
                break;
        default:
                session_refuse(session, id, error, "epoch %u: %s", epoch, strerror(-error));
        }
}

uint32_t request_epoch_number(const Requests *requests, uint32_t number) {
        ShmEpochInfo info;

        return number >> 8 != 0 || shm_epoch_get(&requests->pool->arena, number & 0xff, &info)
                       ? number
                       : shm_epoch_number(info.id, info.era);
}

int request_reopen_for_reading(int memfd) {
        char path[32];
        int fd;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}
