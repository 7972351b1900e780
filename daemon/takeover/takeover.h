#pragma once
/*
 * Where the arena comes from. An earlier daemon of this pool may have left one, with clients, frozen threads and
 * epochs that drain: it is taken up, and the work in it goes on.
 */
#include "daemon/takeover/arena-claim.h"
#include "daemon/takeover/passed.h"
#include "daemon/peer/client-watch.h"
#include "daemon/peer/listener.h"
#include "daemon/work/trimmer.h"

typedef struct ArenaOrigin {
        bool taken_up; /* from an earlier daemon */
        Claim claim;
} ArenaOrigin;

#define ARENA_ORIGIN_INIT ((ArenaOrigin){ .claim = CLAIM_NONE })

/*
 * Opens the arena that systemd kept, or that --adopt names, or makes a new one if there is none that can be used.
 * Logs its errors.
 */
int takeover_open_arena(ArenaOrigin *origin, Pool *pool, Passed *passed, Listener *listener);
void arena_origin_deinit(ArenaOrigin *origin);

/*
 * Resumes the clients, with the pidfds that were passed for them, and the work that was under way. All parts are there,
 * and nobody is let in yet. At the limit of a cgroup, free memory is given back first, unless another process keeps the
 * lock of the arena's file: the clients take some.
 */
int takeover_resume(Clients *clients, Maintainer *maintainer, Trimmer *trimmer, Passed *passed);
