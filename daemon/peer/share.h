#pragma once
/*
 * Fair shares of connections and of client entries: the last few of each are for users with few. See
 * shm/arena/share.h for the rule.
 */
#include <sys/socket.h>

#include "daemon/pool.h"

#define SHARE_SESSIONS_MIN 1024U
#define SHARE_SESSIONS_OPERATORS 32U /* connections that only operators may have */
#define SHARE_SESSIONS_KEPT 32U /* further connections, for users with few */

/* The largest number of connections: one for each client, and more. */
uint32_t share_sessions_max(const ShmArena *arena);
/* Whether a user who is no operator, and has `n_held` of all `n` connections, may have one more; `limit`: the most. */
bool share_allows_session(uint32_t limit, uint32_t n, uint32_t n_held);
/*
 * As share_allows_session() for client entries. True also if no entry is left at all: taking one then fails, which
 * says why.
 */
bool share_allows_client(const ShmArena *arena, uint32_t n, uint32_t n_held);

/* Limits the log lines about refused users: one a minute. */
typedef struct ShareLog {
        uint64_t told_usec; /* 0: not yet */
} ShareLog;

/* `noun` is a plural. */
void share_log(ShareLog *log, const Pool *pool, const struct ucred *peer, const char *noun);
