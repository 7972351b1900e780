#pragma once
/* Events of the pool, such as the death of a client: sent to the sessions that watch the pool. */
#include <stdint.h>
#include <sys/types.h>

#include "daemon/pool.h"

struct EventInfo {
        /* A word: attach, leave, death, repair, advance, close, drained, reserve, reclaim, pressure. */
        const char *kind;
        uint32_t client; /* the client of pid */
        pid_t pid; /* 0: no client is concerned; -1: a client of another pid namespace */
        uint32_t epoch;
        uint64_t size; /* bytes */
};

/* Writes the text of the event and calls pool->on_event. */
void events_send(const Pool *pool, const EventInfo *info, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
