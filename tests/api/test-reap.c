/* Children of a private pool that end by SIGKILL. */
#include <tslab.h>

#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/fill.h"
#include "tests/util/process.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_CHILDREN 40
#define N_EPOCHS 4
#define N_BUSY 10

/* A pool of so few slabs and records that a child's leavings are missed soon. */
static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_threads = 8 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
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

        assert_true(n > 10000 && n < FILL_MAX);
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

/* Attaches with no descriptor left. Where that fails, it attaches with one. */
static int hold_without_descriptors(void *userdata) {
        struct rlimit limit;
        tslab_handle handle;
        int fd, r;

        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        limit.rlim_cur = (rlim_t) fd + 1;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        r = tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        CHECK(r == 0 || r == -EMFILE);
        close(fd);
        return hold(userdata);
}

/* tslab_reap() finds out that the child is dead, though the child had no descriptor when it first attached. */
static void test_reap_without_descriptors(void **state) {
        struct tslab *pool = create();

        reap(pool, test_child_start(TEST_FORK, hold_without_descriptors, pool));
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

/* Control work all the time, which frees the allocated objects again. */
static int work(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;
        uint32_t epoch;

        for (;;) {
                CHECK(tslab_epoch_current(pool, &epoch) == 0);
                for (int i = 0; i < 500; i++)
                        CHECK(tslab_alloc(pool, 64 + (size_t) i, epoch, &handle, NULL) == 0);
                CHECK(tslab_epoch_advance(pool, NULL) == 0);
                CHECK(tslab_epoch_close(pool, epoch, TSLAB_CLOSE_REVOKE) == 0);
        }
}

/* All that there is goes. */
static void revoke_all(struct tslab *pool) {
        uint32_t current;

        assert_int_equal(tslab_epoch_advance(pool, &current), 0);
        for (uint32_t id = 0; id < N_EPOCHS; id++)
                if (id != (current & 0xff))
                        assert_int_equal(tslab_epoch_close(pool, id, TSLAB_CLOSE_REVOKE), 0);
}

/* A child that works. On a machine that is busy it may be long before a child begins. */
static pid_t start_work(struct tslab *pool) {
        pid_t child = test_child_start(TEST_FORK, work, pool);
        uint32_t before, now;

        assert_int_equal(tslab_epoch_current(pool, &before), 0);
        do {
                assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
                usleep(100);
                assert_int_equal(tslab_epoch_current(pool, &now), 0);
        } while (now == before);
        return child;
}

/* Stopped in the middle of control work, at some moment of many, and killed there. */
static void test_reap_control(void **state) {
        struct tslab_options options = {
                .size = sizeof(options), .arena_bytes = 4 << 20, .n_threads = 8, .n_epochs = N_EPOCHS
        };
        uint64_t seed = seed_get();
        struct tslab *pool;
        int n_busy = 0, n_killed = 0, n, status, r;

        assert_int_equal(tslab_create(&pool, &options), 0);
        n = fill(pool);
        while (n_busy < N_BUSY) {
                pid_t child = start_work(pool);

                usleep((useconds_t) (seed_next(&seed) % 5000));
                assert_int_equal(kill(child, SIGSTOP), 0);
                assert_int_equal(waitpid(child, &status, WUNTRACED), child);
                assert_true(WIFSTOPPED(status));
                /* The owner of control work, as long as it lives. */
                r = tslab_reap(pool);
                assert_true(r == 0 || r == -EBUSY);
                assert_int_equal(tslab_epoch_advance(pool, NULL), r);
                assert_true(r == 0 || tslab_control_owner(pool) == child);
                assert_int_equal(kill(child, SIGKILL), 0);
                assert_int_equal(waitpid(child, &status, 0), child);
                n_killed++;
                /* The next owner goes on where the dead one left. */
                assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
                n_busy += r == -EBUSY;
                status = tslab_reap(pool);
                assert_true(status == 1 || (status == 0 && r == 0)); /* it may not have begun */
                assert_int_equal(tslab_reap(pool), 0);
                revoke_all(pool);
                assert_int_equal(fill(pool), n);
        }
        print_message("of %d processes, %d died in the middle of control work\n", n_killed, n_busy);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reap),
                cmocka_unit_test(test_reap_without_descriptors),
                cmocka_unit_test(test_reap_stopped),
                cmocka_unit_test(test_reap_control),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
