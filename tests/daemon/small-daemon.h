#pragma once
/* A daemon with a pool of 16 MiB for one test program, the check at its end, and opening the pool. */
#include <tslab.h>

#include "tests/util/ctl.h"
#include "tests/util/test.h"

static inline int small_daemon_setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=warning", NULL });
        *state = &daemon;
        return 0;
}

static inline int small_daemon_teardown(void **state) {
        ctl_check(*state);
        daemon_stop(*state);
        return 0;
}

static inline struct tslab *small_daemon_open(const DaemonFixture *daemon, uint32_t flags) {
        struct tslab_options options = { .size = sizeof(options), .flags = flags };
        struct tslab *pool;

        assert_int_equal(tslab_open(&pool, daemon->socket, &options), 0);
        return pool;
}
