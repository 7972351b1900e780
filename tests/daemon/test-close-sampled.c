/* Processes that sample their allocations, and close the pool while they have other threads. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <tslab.h>

#include "tests/util/daemon-fixture.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_POOLS 3

typedef struct Inherited {
        struct tslab *pool;
        unsigned n_before; /* descriptors, before the parent opened the pool */
} Inherited;

static unsigned n_descriptors(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        while (dir && readdir(dir))
                n++;
        if (dir)
                closedir(dir);
        return n;
}

static void *wait_for_end(void *userdata) {
        (void) pthread_barrier_wait(userdata);
        return NULL;
}

static struct tslab *open_sampled(const DaemonFixture *daemon) {
        tslab_handle handle;
        struct tslab *pool;

        assert_int_equal(tslab_open(&pool, daemon->socket, NULL), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        return pool;
}

static int close_inherited(void *userdata) {
        const Inherited *inherited = userdata;

        tslab_close(inherited->pool);
        CHECK(n_descriptors() == inherited->n_before);
        return 0;
}

/* The remains of a closed pool, at which other threads may still look, have no descriptor. */
static void test_close_sampled(void **state) {
        pthread_barrier_t barrier;
        DaemonFixture daemon;
        Inherited inherited;
        pthread_t idle;

        (void) state;
        daemon_start(&daemon, (const char *[]){ "--size=1M", "--log-level=err", NULL });
        assert_int_equal(setenv("TSLAB_SAMPLE", "1", 1), 0);
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&idle, NULL, wait_for_end, &barrier), 0);
        inherited.n_before = n_descriptors();
        for (int i = 0; i < N_POOLS; i++) {
                inherited.pool = open_sampled(&daemon);
                assert_int_equal(test_child_run(TEST_FORK, close_inherited, &inherited), 0);
                tslab_close(inherited.pool);
                assert_int_equal(n_descriptors(), inherited.n_before);
        }
        (void) pthread_barrier_wait(&barrier);
        assert_int_equal(pthread_join(idle, NULL), 0);
        pthread_barrier_destroy(&barrier);
        daemon_stop(&daemon);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_close_sampled),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
