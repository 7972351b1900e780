#pragma once
/* What is kept of client entries and connections for users who have few; see shm/arena/share.h. */
#include "daemon/manager.h"

#define SHARE_SESSIONS_MIN 1024U
#define SHARE_SESSIONS_OPERATORS 32U /* of all, for operators */
#define SHARE_SESSIONS_KEPT 32U /* of the rest, for users who have few */

/* Connections at most: one for each client, and more. */
uint32_t share_sessions_max(const Manager *manager);
/* Those of a user. */
uint32_t share_count_sessions(const Manager *manager, uid_t uid);
/* Whether a user who is no operator may have one more, while `limit` is what there can be. */
bool share_allows_session(const Manager *manager, uid_t uid, uint32_t limit);
/* True also where none is left at all: taking one then fails, which says why. */
bool share_allows_client(const Manager *manager, uid_t uid);
/* Says so, once a minute at most. `what` is a plural. */
void share_say(Manager *manager, const struct ucred *peer, const char *what);
