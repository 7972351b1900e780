#pragma once
/*
 * A thread that answers questions while the loop waits for the lock of the arena's file, which a writer can keep for as
 * long as it likes (SECURITY.md). It serves new connections, and reads only. It reports the wait in the journal and to
 * systemd, and names the process that it believes to be the cause.
 */
#include "daemon/peer/listener.h"
#include "daemon/request/request.h"

typedef struct StandIn StandIn;

/* Starts the thread; the calling thread is the loop's. `real` and `listener` are the loop's, and outlive this. */
int stand_in_new(StandIn **ret_stand_in, const Requests *real, const Listener *listener);
/* Ends the thread. NULL-safe, returns NULL. */
StandIn *stand_in_free(StandIn *stand_in);
