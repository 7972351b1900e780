#pragma once
/* The demo's progress, on stderr: one line that changes on a terminal, otherwise a line for each period. */
#include <stdbool.h>
#include <stdint.h>

typedef struct Progress {
        bool terminal;
        uint32_t n_periods;
        uint64_t n_requests;
        uint64_t begin_ns, last_ns; /* when the work began; when progress was shown last */
} Progress;

/* Whether stderr is a terminal that can rewrite a line. */
bool progress_is_terminal(void);
void progress_init(Progress *progress, uint32_t n_periods, uint64_t n_requests);
/* Often: shows something on a terminal, and elsewhere when nothing was shown for long. */
void progress_tick(Progress *progress, uint32_t period, uint64_t n_done);
/* At the end of a period, with the memory committed then. */
void progress_period(Progress *progress, uint32_t period, uint64_t n_done, uint64_t committed);
/* Clears the line, so that something else can be printed; may be called at any time. */
void progress_end(const Progress *progress);
