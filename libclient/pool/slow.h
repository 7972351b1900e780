#pragma once
/*
 * Times the slow calls, which a thread's cache does not serve. If tslab_options.time_slow is N, each Nth such call of a
 * thread is timed. The fast path does not know of it.
 */
#include <time.h>

#include "libclient/pool/pool.h"

static inline uint64_t slow_now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

/* A call begins. Returns the time, or 0 if this call is not to be timed. After pool_enter(). */
static inline uint64_t slow_begin(const struct tslab *pool, SlowCalls *calls) {
        calls->n++;
        return __builtin_expect(pool->time_slow != 0, 0) && calls->n % pool->time_slow == 0 ? slow_now_ns()
                                                                                            : 0;
}

/* The call is over. Before pool_leave(). */
static inline void slow_end(SlowCalls *calls, uint64_t begin) {
        uint64_t ns;

        if (__builtin_expect(begin == 0, 1))
                return;
        ns = slow_now_ns() - begin;
        calls->n_timed++;
        calls->total_ns += ns;
        calls->max_ns = ns > calls->max_ns ? ns : calls->max_ns;
}
