#pragma once
/* The demo's report at its end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tslab_map.h>

#include "examples/demo/server.h"
#include "examples/demo/worker.h"

typedef struct Report {
        const char *source; /* name of the log; NULL: made up, from `seed` */
        uint64_t seed;
        uint64_t n_lines, n_malformed, n_cut;
        uint32_t n_workers, n_died;
        uint32_t n_periods;
        int64_t period_seconds;
        uint64_t elapsed_ns; /* time spent on serving all periods */
        uint64_t n_expected; /* requests there were */
        uint64_t n_clients;
        uint64_t n_booked; /* requests in the ledger, where all sessions end up */
        uint64_t timer_ns; /* the part of a latency that is reading the clock */
        uint64_t peak_size; /* committed, at the end of a period */
        ServerMemory before, after; /* the last sessions expired */
        uint64_t reclaimed_size;
        int check; /* exit code of tslabctl */
        WorkerStats stats;
        uint64_t pages_limit; /* memory for pages, in bytes */
        struct tslab_map_statistics pages;
} Report;

/* Whether the report names no fault. */
bool report_is_good(const Report *report);
void report_print_text(const Report *report, FILE *f);
void report_print_json(const Report *report, FILE *f);
/* The time between two readings of the clock in a row, the median of many. */
uint64_t report_measure_timer(void);
