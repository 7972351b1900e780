#pragma once
/*
 * How much of what there is only so much of one user may have: nearly all, while others want none. Of the
 * last few, less than what would be left: each user that comes finds some, and nobody but an operator
 * takes the last.
 */
#include <stdbool.h>
#include <stdint.h>

#define SHM_SHARE_KEPT_MAX 16U

/* The last few, of so many. Of less than 64 there are none: first come, first served. */
static inline uint32_t shm_share_kept(uint32_t n) {
        return n / 64 < SHM_SHARE_KEPT_MAX ? n / 64 : SHM_SHARE_KEPT_MAX;
}

/* Whether a user that holds n_held may have one more, where n_left are free. */
static inline bool shm_share_allows(uint32_t n_held, uint32_t n_left, uint32_t n_kept) {
        return n_left > n_kept || n_held + 1 < n_left;
}
