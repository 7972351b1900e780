#pragma once
/* Processes that rotate the epochs of a pool at the same moments: in each window one of them advances, once. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <tslab.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define ADVANCE_PROCESSES 4
#define ADVANCE_WINDOWS 50

typedef struct AdvanceWindows {
        struct tslab *pool;
        pthread_barrier_t barrier;
        uint32_t before[ADVANCE_WINDOWS], after[ADVANCE_WINDOWS];
        bool advanced[ADVANCE_WINDOWS][ADVANCE_PROCESSES];
} AdvanceWindows;

typedef struct AdvanceWorker {
        AdvanceWindows *windows; /* shared */
        unsigned index;
} AdvanceWorker;

/* One window: all see the epoch, and only then the first of them advances. */
static inline int advance_window(const AdvanceWorker *worker, unsigned i) {
        AdvanceWindows *w = worker->windows;
        uint32_t seen, now;
        int r;

        (void) pthread_barrier_wait(&w->barrier);
        CHECK(tslab_epoch_current(w->pool, &seen) == 0);
        (void) pthread_barrier_wait(&w->barrier);
        do
                r = tslab_epoch_advance_from(w->pool, seen, &now);
        while (r == -EBUSY); /* private pools: another one is at it */
        CHECK(r == 0 || r == 1);
        CHECK(now != seen);
        w->advanced[i][worker->index] = r;
        w->before[i] = seen;
        w->after[i] = now;
        return 0;
}

static inline int advance_worker(void *userdata) {
        int line = 0;

        for (unsigned i = 0; i < ADVANCE_WINDOWS && line == 0; i++)
                line = advance_window(userdata, i);
        return line;
}

static inline void advance_by_many(struct tslab *pool) {
        AdvanceWindows *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_barrierattr_t shared;
        pid_t pids[ADVANCE_PROCESSES];

        assert_ptr_not_equal(w, MAP_FAILED);
        w->pool = pool;
        assert_int_equal(pthread_barrierattr_init(&shared), 0);
        assert_int_equal(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
        assert_int_equal(pthread_barrier_init(&w->barrier, &shared, ADVANCE_PROCESSES), 0);
        for (unsigned i = 0; i < ADVANCE_PROCESSES; i++)
                pids[i] = test_child_start(TEST_FORK, advance_worker, &(AdvanceWorker){ w, i });
        for (unsigned i = 0; i < ADVANCE_PROCESSES; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        for (unsigned i = 0; i < ADVANCE_WINDOWS; i++) {
                unsigned n = 0;

                for (unsigned k = 0; k < ADVANCE_PROCESSES; k++)
                        n += w->advanced[i][k];
                assert_int_equal(n, 1);
                if (i > 0)
                        assert_int_equal(w->before[i], w->after[i - 1]);
        }
        pthread_barrier_destroy(&w->barrier);
        munmap(w, sizeof(*w));
}
