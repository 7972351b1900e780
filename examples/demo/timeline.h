#pragma once
/*
 * A log in the order of its time, cut into periods of equal length. All requests of a period are
 * served before the first of the next one, so it does not matter to sessions, or to when they
 * expire, how many workers serve them and which is faster.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "examples/demo/demo-log.h"

#define TIMELINE_PERIODS_MAX 10

typedef struct Period {
        size_t first, n; /* in requests[] */
} Period;

typedef struct Timeline {
        Request *requests; /* by period; within one as in the log */
        size_t n_requests;
        int64_t begin; /* seconds since 1970 */
        int64_t period_seconds;
        uint32_t n_periods;
        Period periods[TIMELINE_PERIODS_MAX];
} Timeline;

/* Refers to the log's text. -ENOMEM. */
int timeline_init(Timeline *ret, const Log *log);
void timeline_deinit(Timeline *timeline);

/* A line for each request, as the demo's help describes them. Negative errno. */
int timeline_write(const Timeline *timeline, FILE *f);
