#include "daemon/peer/share.h"

#include <sys/param.h>
#include <sys/socket.h>

#include "daemon/peer/client-watch.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/peer/session.h"
#include "proto/deadline.h"
#include "shm/arena/share.h"

#define SAY_EVERY_USEC (60 * PROTO_USEC_PER_SEC)

uint32_t share_sessions_max(const Manager *manager) {
        return MAX(SHARE_SESSIONS_MIN,
                   manager->pool.arena.n_records + SHARE_SESSIONS_OPERATORS + SHARE_SESSIONS_KEPT);
}

static uint32_t left(uint32_t limit, uint32_t n) {
        return n < limit ? limit - n : 0;
}

uint32_t share_count_sessions(const Manager *manager, uid_t uid) {
        uint32_t n = 0;

        for (const Session *session = manager->sessions; session; session = session->next)
                n += !session->dropped && session->peer.uid == uid;
        return n;
}

bool share_allows_session(const Manager *manager, uid_t uid, uint32_t limit) {
        uint32_t n_left = left(limit, manager->n_sessions);

        return n_left > SHARE_SESSIONS_KEPT ||
               shm_share_allows(share_count_sessions(manager, uid), n_left, SHARE_SESSIONS_KEPT);
}

bool share_allows_client(const Manager *manager, uid_t uid) {
        uint32_t n_all = manager->pool.arena.n_records, n_left, n = 0, n_held = 0;

        for (const ClientWatch *client = manager->clients; client; client = client->next) {
                n++;
                n_held += client->uid == uid;
        }
        n_left = left(n_all, n);
        return n_left == 0 || shm_share_allows(n_held, n_left, shm_share_kept(n_all));
}

void share_say(Manager *manager, const struct ucred *peer, const char *what) {
        uint64_t now = proto_now_usec();

        if (manager->share_said_usec != 0 && now - manager->share_said_usec < SAY_EVERY_USEC)
                return;
        manager->share_said_usec = now;
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_SHARE, .pid = peer->pid },
                   "user %u has as many %s of pool %s as one user may have: process %d was refused",
                   (unsigned) peer->uid, what, manager->pool.options->pool, (int) peer->pid);
}
