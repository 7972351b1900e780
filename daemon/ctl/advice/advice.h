#pragma once

/*
 * Settings that would have fitted a pool so far, by its high-water marks. This is arithmetic alone:
 * nothing here asks the daemon.
 */

#include <stdint.h>

#include "daemon/ctl/advice/classes.h"
#include "proto/message.h"

typedef struct AdviceNumber {
        uint64_t value;
        uint64_t current;
        uint64_t saved_bytes; /* memory that the pool would not have used */
        uint64_t unreserved_bytes; /* address space that it would not have reserved */
        char why[ADVICE_WHY_SIZE];
} AdviceNumber;

typedef struct Advice {
        AdviceNumber size, retain, threads; /* bytes, bytes, threads */
        AdviceClasses classes;
} Advice;

/* `stats` must have peaks. */
void advice_find(Advice *ret, const Tslab__StatsReply *stats);
