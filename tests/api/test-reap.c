/* Children of a private pool that end by SIGKILL. */
#include <tslab.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_CHILDREN 40
#define N_OBJECTS_MAX 100000

static tslab_handle objects[N_OBJECTS_MAX];

/* A pool of so few slabs and records that what children leave is missed soon. */
static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_threads = 8 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

/* How many objects there is room for. */
static int fill(struct tslab *pool) {
        int n = 0;

        while (n < N_OBJECTS_MAX && tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &objects[n], NULL) == 0)
                n++;
        for (int i = 0; i < n; i++)
                assert_int_equal(tslab_free(pool, objects[i]), 0);
        return n;
}

/* Caches full, objects pending; one that is shared, in the root. */
static int hold(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handles[300], handle;

        for (size_t size = 64; size <= 768; size += 64) {
                for (int i = 0; i < 300; i++)
                        CHECK(tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handles[i], NULL) == 0);
                for (int i = 0; i < 300; i++)
                        CHECK(tslab_free(pool, handles[i]) == 0);
        }
        for (int i = 0; i < 10; i++)
                CHECK(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_root_set(pool, "shared", 0, handle) == 0);
        kill(getpid(), SIGKILL);
        return 0;
}

static void reap(struct tslab *pool, pid_t child) {
        siginfo_t info;

        assert_int_equal(waitid(P_PID, (id_t) child, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(test_child_wait(child), -SIGKILL);
        assert_int_equal(tslab_reap(pool), 0);
}

static void test_reap(void **state) {
        struct tslab *pool = create();
        int n = fill(pool);
        tslab_handle shared;
        void *object;

        assert_true(n > 10000 && n < N_OBJECTS_MAX);
        for (int i = 0; i < N_CHILDREN; i++) {
                reap(pool, test_child_start(TEST_FORK, hold, pool));
                assert_int_equal(tslab_root_get(pool, "shared", &shared), 0);
                assert_int_equal(tslab_get(pool, shared, &object, NULL), 0);
                assert_int_equal(tslab_root_set(pool, "shared", shared, 0), 0);
                assert_int_equal(tslab_free(pool, shared), 0);
        }
        assert_int_equal(fill(pool), n);
        tslab_close(pool);
}

static int wait_to_be_killed(void *userdata) {
        tslab_handle handle;

        CHECK(tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        pause();
        return 0;
}

/* A process that is stopped is alive, however long. */
static void test_reap_stopped(void **state) {
        struct tslab *pool = create();
        pid_t child = test_child_start(TEST_FORK, wait_to_be_killed, pool);
        int status;

        assert_int_equal(kill(child, SIGSTOP), 0);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_int_equal(tslab_reap(pool), 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reap),
                cmocka_unit_test(test_reap_stopped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
