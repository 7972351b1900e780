#pragma once
/*
 * The fair share of a scarce table. While more than n_kept entries are free, any user may take one. From then on a
 * user may take one only if it would then hold fewer than were free: so each new user finds some, and the last
 * entry is left to an operator.
 */
#include <stdbool.h>
#include <stdint.h>

#define SHM_SHARE_KEPT_MAX 16U

/*
 * How many entries of a table of n are kept for users that hold few: none if n < 64. Not one alone: it would be left to
 * operators, and a user could keep all others out.
 */
static inline uint32_t shm_share_kept(uint32_t n) {
        uint32_t kept = n / 64 == 1 ? 2 : n / 64;

        return kept < SHM_SHARE_KEPT_MAX ? kept : SHM_SHARE_KEPT_MAX;
}

/* Whether a user that holds n_held may have one more, where n_left are free. */
static inline bool shm_share_allows(uint32_t n_held, uint32_t n_left, uint32_t n_kept) {
        return n_left > n_kept || n_held + 1 < n_left;
}
