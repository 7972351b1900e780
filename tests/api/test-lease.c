/* Epochs that end with the process that leased them, in private pools. */
#include <tslab.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_OBJECTS 1000

typedef struct Told {
        uint32_t epoch;
        tslab_handle objects[N_OBJECTS], shared;
} Told;

typedef struct Owner {
        struct tslab *pool;
        int told_fd;
        enum { DIE, CLOSE_EPOCH_AND_DIE, CLOSE_POOL, FORK_AND_STAY } way;
} Owner;

static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 4 << 20, .n_epochs = 4 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

static int fill(struct tslab *pool, Told *told) {
        for (int i = 0; i < N_OBJECTS; i++)
                CHECK(tslab_alloc(pool, 128, told->epoch, &told->objects[i], NULL) == 0);
        CHECK(tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &told->shared, NULL) == 0);
        return 0;
}

static int own(void *userdata) {
        Owner *owner = userdata;
        static Told told;
        pid_t pid;

        CHECK(tslab_epoch_lease(owner->pool, "lease", &told.epoch) == 0);
        CHECK(fill(owner->pool, &told) == 0);
        if (owner->way == FORK_AND_STAY) {
                /* A child that uses the pool, and ends, does not end the lease. */
                pid = fork();
                if (pid == 0) {
                        CHECK(tslab_free(owner->pool, told.objects[0]) == 0);
                        _exit(tslab_alloc(owner->pool, 128, told.epoch, &told.objects[0], NULL));
                }
                CHECK(waitpid(pid, NULL, 0) == pid);
                CHECK(tslab_reap(owner->pool) == 1);
                CHECK(tslab_get(owner->pool, told.objects[1], (void *[]){ NULL }, NULL) == 0);
        }
        CHECK(write(owner->told_fd, &told, sizeof(told)) == sizeof(told));
        if (owner->way == CLOSE_EPOCH_AND_DIE)
                CHECK(tslab_epoch_close(owner->pool, told.epoch, 0) == 0);
        if (owner->way == CLOSE_POOL) {
                (void) tslab_close(owner->pool);
                return 0;
        }
        kill(getpid(), owner->way == FORK_AND_STAY ? SIGSTOP : SIGKILL);
        return 0;
}

static pid_t start(Owner *owner, Told *ret) {
        static Told told;
        size_t n = 0;
        ssize_t got;
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        owner->told_fd = fds[1];
        pid = test_child_start(TEST_FORK, own, owner);
        close(fds[1]);
        while (n < sizeof(told) && (got = read(fds[0], (char *) &told + n, sizeof(told) - n)) > 0)
                n += (size_t) got;
        close(fds[0]);
        assert_int_equal(n, sizeof(told));
        *ret = told;
        return pid;
}

static uint32_t n_live(struct tslab *pool, const Told *told) {
        uint32_t n = 0;
        void *object;

        for (int i = 0; i < N_OBJECTS; i++)
                n += tslab_get(pool, told->objects[i], &object, NULL) == 0;
        return n;
}

static void check_revoked(struct tslab *pool, const Told *told) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        tslab_handle handle;
        void *object;

        assert_int_equal(n_live(pool, told), 0);
        assert_int_equal(tslab_get(pool, told->shared, &object, NULL), 0); /* in another epoch */
        assert_int_equal(tslab_alloc(pool, 128, told->epoch, &handle, NULL), -ESHUTDOWN);
        assert_int_equal(tslab_epoch_info(pool, told->epoch, &info), 0);
        assert_int_equal(info.state, TSLAB_EPOCH_DRAINED);
        assert_int_equal(tslab_free(pool, told->shared), 0);
}

static void check_death(int way) {
        struct tslab *pool = create();
        Owner owner = { .pool = pool, .way = way };
        siginfo_t info;
        Told told;

        /* More often than there are epochs to be had. */
        for (int i = 0; i < 8; i++) {
                pid_t pid = start(&owner, &told);

                assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
                assert_int_equal(n_live(pool, &told), N_OBJECTS);
                assert_int_equal(tslab_reap(pool), 1);
                check_revoked(pool, &told);
                assert_int_equal(test_child_wait(pid), -SIGKILL);
        }
        tslab_close(pool);
}

static void test_lease_ends_with_death(void **state) {
        check_death(DIE);
}

static void test_lease_outlasts_close(void **state) {
        check_death(CLOSE_EPOCH_AND_DIE);
}

static void test_lease_ends_with_close_of_pool(void **state) {
        struct tslab *pool = create();
        Owner owner = { .pool = pool, .way = CLOSE_POOL };
        Told told;

        for (int i = 0; i < 8; i++) {
                assert_int_equal(test_child_wait(start(&owner, &told)), 0);
                check_revoked(pool, &told);
        }
        tslab_close(pool);
}

/* Alive, though stopped, and though a child of it came and went. */
static void test_lease_stays_the_parents(void **state) {
        struct tslab *pool = create();
        Owner owner = { .pool = pool, .way = FORK_AND_STAY };
        Told told;
        pid_t pid = start(&owner, &told);
        int status;

        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status));
        assert_int_equal(tslab_reap(pool), 0);
        assert_int_equal(n_live(pool, &told), N_OBJECTS - 1);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(tslab_reap(pool), 1);
        check_revoked(pool, &told);
        tslab_close(pool);
}

/* An epoch that is merely reserved stays. */
static int reserve_and_die(void *userdata) {
        static Told told;

        CHECK(tslab_epoch_reserve(userdata, "kept", &told.epoch) == 0);
        CHECK(fill(userdata, &told) == 0);
        CHECK(tslab_root_set(userdata, "kept", 0, told.objects[7]) == 0);
        kill(getpid(), SIGKILL);
        return 0;
}

static void test_reserved_is_not_leased(void **state) {
        struct tslab *pool = create();
        tslab_handle handle;
        void *object;

        assert_int_equal(test_child_run(TEST_FORK, reserve_and_die, pool), -SIGKILL);
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(tslab_root_get(pool, "kept", &handle), 0);
        assert_int_equal(tslab_get(pool, handle, &object, NULL), 0);
        tslab_close(pool);
}

static void test_lease_errors(void **state) {
        struct tslab *pool = create();
        uint32_t epoch;

        assert_int_equal(tslab_epoch_lease(pool, "a label that is far too long to be one", &epoch), -EINVAL);
        assert_int_equal(tslab_epoch_lease(pool, NULL, &epoch), 0);
        assert_int_equal(tslab_epoch_lease(pool, "b", &epoch), 0);
        assert_int_equal(tslab_epoch_lease(pool, "c", &epoch), -ENOSPC);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lease_ends_with_death),
                cmocka_unit_test(test_lease_outlasts_close),
                cmocka_unit_test(test_lease_ends_with_close_of_pool),
                cmocka_unit_test(test_lease_stays_the_parents),
                cmocka_unit_test(test_reserved_is_not_leased),
                cmocka_unit_test(test_lease_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
