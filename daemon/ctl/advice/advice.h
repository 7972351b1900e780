#pragma once

/*
 * Settings that would have fitted a pool so far, by its high-water marks. Pure arithmetic: no
 * question is asked here.
 */

#include <stdint.h>

#include "daemon/ctl/advice/classes.h"
#include "proto/message.h"

typedef struct AdviceNumber {
        uint64_t value;
        uint64_t current;
        uint64_t saved_bytes; /* of memory, that would not have been used */
        uint64_t unreserved_bytes; /* of address space */
        char why[ADVICE_WHY_SIZE];
} AdviceNumber;

typedef struct Advice {
        AdviceNumber size, retain, threads; /* bytes, bytes, threads */
        AdviceClasses classes;
} Advice;

/* `stats` has peaks. */
void advice_find(Advice *ret, const Tslab__StatsReply *stats);
