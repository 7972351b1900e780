#include "examples/demo/demo-progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/demo/util.h"

#define TERMINAL_NS (UINT64_C(50) * 1000000)
#define QUIET_NS (UINT64_C(5) * 1000000000)

bool progress_is_terminal(void) {
        const char *term = getenv("TERM");

        return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void progress_init(Progress *progress, uint32_t n_periods, uint64_t n_requests) {
        *progress = (Progress){
                .terminal = progress_is_terminal(),
                .n_periods = n_periods,
                .n_requests = n_requests,
                .begin_ns = now_ns(),
                .last_ns = now_ns(),
        };
}

static void progress_show(Progress *progress, uint32_t period, uint64_t n_done, const char *rest) {
        uint64_t percent = progress->n_requests ? n_done * 100 / progress->n_requests : 100;

        progress->last_ns = now_ns();
        (void) fprintf(stderr,
                       "%speriod %" PRIu32 " of %" PRIu32 ": %" PRIu64 " of %" PRIu64 " requests, %" PRIu64
                       " %%%s%s",
                       progress->terminal ? "\r" : "", period + 1, progress->n_periods, n_done,
                       progress->n_requests, percent, rest, progress->terminal ? "\033[K" : "\n");
        (void) fflush(stderr);
}

void progress_tick(Progress *progress, uint32_t period, uint64_t n_done) {
        if (now_ns() - progress->last_ns > (progress->terminal ? TERMINAL_NS : QUIET_NS))
                progress_show(progress, period, n_done, "");
}

void progress_period(Progress *progress, uint32_t period, uint64_t n_done, uint64_t committed) {
        char rest[64];

        (void) snprintf(rest, sizeof(rest), ", %" PRIu64 " KiB committed", committed / 1024);
        progress_show(progress, period, n_done, rest);
}

void progress_end(const Progress *progress) {
        if (progress->terminal)
                (void) fputs("\r\033[K", stderr);
}
