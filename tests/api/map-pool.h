#pragma once
/* The fixture of tests of maps: a private pool. */
#include <time.h>

#include <tslab.h>

#include "tests/util/test.h"

static inline int map_pool_setup(void **state) {
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        *state = pool;
        return 0;
}

static inline int map_pool_teardown(void **state) {
        tslab_close(*state);
        return 0;
}

static inline void sleep_ms(unsigned ms) {
        nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}
