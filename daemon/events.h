#pragma once
/* What happens, told to the sessions that watch. */
#include "daemon/peer/session.h"

typedef struct EventInfo {
        /* A word: attach, leave, death, repair, advance, close, drained, reserve, reclaim, pressure. */
        const char *kind;
        uint32_t client; /* of pid */
        pid_t pid; /* 0: no client is concerned */
        uint32_t epoch;
        uint64_t size; /* bytes */
} EventInfo;

void events_send(Manager *manager, const EventInfo *info, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
