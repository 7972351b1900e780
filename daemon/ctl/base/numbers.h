#pragma once

/*
 * The numbers of a pool that `tslabctl stats` shows. Each stands here once, in a row of a table;
 * text, JSON, metrics and the list in tslabctl(1) are made from the rows.
 * tests/unit/ctl/test-numbers.c checks that every number of the daemon's reply has a row, and that every row is in all
 * four.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/message.h"
#include "shm/format/counters.h"

/* The message that a number is a member of. */
typedef enum NumberScope {
        NUMBER_OF_POOL, /* Tslab__StatsReply */
        NUMBER_OF_COUNTERS, /* Tslab__Counters, in it */
        NUMBER_OF_EPOCH, /* Tslab__EpochInfo */
        NUMBER_OF_CLASS, /* Tslab__ClassInfo */
        NUMBER_OF_MAP, /* Tslab__MapInfo */
        _NUMBER_SCOPE_N,
} NumberScope;

typedef enum NumberKind {
        NUMBER_GAUGE,
        NUMBER_COUNTER, /* only grows while the pool lives */
} NumberKind;

typedef enum NumberUnit {
        NUMBER_COUNT,
        NUMBER_BYTES,
        NUMBER_UPTIME, /* microseconds; as a metric, the second of the start, as monitoring systems want it */
} NumberUnit;

#define NUMBER_ATTEMPTS SHM_COUNTERS_ATTEMPTS

typedef struct Number {
        const char *name; /* name of the member, in the message and in JSON */
        const char *metric; /* without "tslab_" and "_total" */
        const char *text; /* the name of the row, or the title of the column, in text */
        NumberUnit unit;
        NumberKind kind;
        const char *whole; /* the counter that this one counts a part of, NUMBER_ATTEMPTS, or NULL */
        const char *help; /* a sentence without its full stop */
        size_t offset, size; /* place of the member in its message */
} Number;

const Number *numbers_of(NumberScope scope, size_t *ret_n);

/* `message` is of the number's scope; NULL: the daemon sent none, and all is 0. */
uint64_t number_value(const Number *number, const void *message);
/* As number_value() for a counter by its name. */
uint64_t number_counter(const Tslab__Counters *counters, const char *name);

/* The list of a scope in the source of a manual page, as scdoc reads it. */
void numbers_print_manual(FILE *out, NumberScope scope);

/* Buckets of CallTimes. */
static inline uint64_t call_below_usec(size_t bucket) {
        return UINT64_C(16) << 2 * bucket;
}

typedef struct CallSummary {
        uint64_t n;
        uint64_t half_usec,
                most_usec; /* half of them, and 99 %, took less; UINT64_MAX: longer than any bucket */
} CallSummary;

CallSummary call_summary(const Tslab__CallTimes *call);
