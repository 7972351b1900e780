#pragma once
/* The sessions that watch the pool: each is sent the pool's events until it hangs up. */
#include "daemon/events.h"
#include "daemon/peer/session.h"

/* `text` is valid UTF-8, of at most PROTO_TEXT_MAX bytes. */
void watchers_send(Sessions *sessions, const EventInfo *info, const char *text);
