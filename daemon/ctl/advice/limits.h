#pragma once

/* A limit that would have fitted a map so far. This is arithmetic alone: nothing here asks the daemon. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/ctl/advice/advice.h"
#include "proto/message.h"

typedef struct AdviceLimit {
        uint64_t value; /* bytes */
        bool changed; /* it is another than the map's limit */
        char why[ADVICE_WHY_SIZE];
} AdviceLimit;

/* The map must have a limit. `stats` must have peaks. */
void advice_find_limit(AdviceLimit *ret, const Tslab__MapInfo *map, const Tslab__StatsReply *stats);
