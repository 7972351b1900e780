#include "daemon/peer/share.h"

#include <sys/param.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/deadline.h"
#include "shm/arena/share.h"

#define LOG_EVERY_USEC (60 * PROTO_USEC_PER_SEC)

uint32_t share_sessions_max(const ShmArena *arena) {
        return MAX(SHARE_SESSIONS_MIN, arena->n_records + SHARE_SESSIONS_OPERATORS + SHARE_SESSIONS_KEPT);
}

static uint32_t n_remaining(uint32_t limit, uint32_t n) {
        return n < limit ? limit - n : 0;
}

bool share_allows_session(uint32_t limit, uint32_t n, uint32_t n_held) {
        uint32_t n_left = n_remaining(limit, n);

        return n_left > SHARE_SESSIONS_KEPT || shm_share_allows(n_held, n_left, SHARE_SESSIONS_KEPT);
}

bool share_allows_client(const ShmArena *arena, uint32_t n, uint32_t n_held) {
        uint32_t n_left = n_remaining(arena->n_records, n);

        return n_left == 0 || shm_share_allows(n_held, n_left, shm_share_kept(arena->n_records));
}

void share_log(ShareLog *log, const Pool *pool, const struct ucred *peer, const char *noun) {
        uint64_t now = proto_now_usec();

        if (log->told_usec != 0 && now - log->told_usec < LOG_EVERY_USEC)
                return;
        log->told_usec = now;
        log_fields(
                LOG_WARNING, (LogFields){ .message = MESSAGE_SHARE, .pid = peer->pid },
                "the last %s of pool %s are kept for operators and users that have few: process %d of user %u was "
                "refused",
                noun, pool->options->pool, (int) peer->pid, (unsigned) peer->uid);
}
