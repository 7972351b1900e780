#pragma once
/*
 * Threads that allocate, fill, hand over, check and free objects of mixed sizes and epochs, while another thread
 * advances and closes epochs.
 *
 * Handles change hands through a table of slots: a thread puts a handle into a slot, and owns the handle that it gets
 * out. So it frees objects that it did not allocate. An object is written before its handle is put into the table, and
 * not after.
 */
#include <stdbool.h>
#include <stdint.h>
#include <tslab.h>

#define CHURN_SLOTS 4096U

/* Shared by all; all zeros to begin with. */
typedef struct Churn {
        uint64_t seed;
        uint32_t stop;
        uint32_t failed; /* somebody has said why */
        uint64_t n_allocs, n_frees, n_handed, n_refused, n_full; /* refused: the epoch was closed */
        uint64_t slots[CHURN_SLOTS];
} Churn;

/* One thread's part, until `stop` or for `n_rounds`. All that it owns is freed in the end. */
void churn_run(Churn *churn, struct tslab *pool, uint64_t owner, uint64_t n_rounds);

/* Advances and closes epochs until `deadline_msec` of CLOCK_MONOTONIC, then sets `stop`. */
void churn_epochs(Churn *churn, struct tslab *pool, uint64_t deadline_msec);

/* Frees the objects that are left in the table. */
void churn_clear(Churn *churn, struct tslab *pool);

bool churn_stopped(const Churn *churn);
uint64_t churn_now_msec(void);
void churn_print(const Churn *churn);
