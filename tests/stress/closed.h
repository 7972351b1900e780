#pragma once
/* Looks at an arena that all processes have closed, through a mapping of the test. */
#include "shm/maintain/check.h"
#include "shm/stats/stats.h"
#include "tests/util/test.h"

static inline void check_closed(const ShmArena *arena, uint64_t n_live_min, uint64_t n_live_max) {
        ShmStats stats;
        ShmCheck check;

        assert_int_equal(shm_check(arena, &check), 0);
        if (check.problems > 0)
                print_error("%s\n", check.texts[0]);
        assert_int_equal(check.problems + check.lost_slots + check.in_flight_slots, 0);
        shm_stats(arena, &stats);
        assert_int_equal(stats.cached_objects, 0);
        assert_in_range(stats.live_objects, n_live_min, n_live_max);
        assert_int_equal(stats.threads, 0);
}
