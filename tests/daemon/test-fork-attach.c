/*
 * Children that forked from an attached client, and cannot see the daemon's socket any more: they have
 * another root, another user, no parent. All of it in a process of its own, which was executed.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define NOBODY 65534U
#define DEPTH 3U
#define N_CHILDREN 8U
#define N_UNANSWERED 20U
#define TIMEOUT_MS 3000U

typedef struct Report {
        int line; /* 0: all went well; else where not */
        int error;
        uint64_t handle;
} Report;

/* ---- in the client, and its children; none of it may assert */

#define TRY(_call)                                                                                           \
        do {                                                                                                 \
                int _r = (_call);                                                                            \
                if (_r < 0)                                                                                  \
                        return (Report){ .line = __LINE__, .error = _r < -1 ? _r : -errno };                 \
        } while (0)

/* Sees the parent's object, and makes, and partly frees, its own. */
static Report use(struct tslab *pool, tslab_handle inherited) {
        tslab_handle handles[100];
        Report report = {};
        void *object;

        TRY(tslab_get(pool, inherited, &object, NULL));
        if (!pattern_check(object, 128, 1))
                return (Report){ .line = __LINE__ };
        for (size_t i = 0; i < 100; i++) {
                TRY(tslab_alloc(pool, 200, TSLAB_EPOCH_CURRENT, &handles[i], &object));
                pattern_fill(object, 200, 2, i);
        }
        for (size_t i = 1; i < 100; i++)
                TRY(tslab_free(pool, handles[i]));
        if (tslab_free(pool, handles[1]) != -ESTALE)
                return (Report){ .line = __LINE__ };
        report.handle = handles[0];
        return report;
}

static Report become_nobody(const char *dir) {
        TRY(chroot(dir));
        TRY(chdir("/"));
        TRY(setresgid(NOBODY, NOBODY, NOBODY));
        TRY(setresuid(NOBODY, NOBODY, NOBODY));
        return (Report){};
}

static int report(Report r) {
        role_write(&r, sizeof(r));
        return r.line != 0;
}

/* Children leave as they should: repair would have to free the objects of one that died otherwise. */
static void leave(struct tslab *pool, int status) {
        tslab_close(pool);
        _exit(status);
}

static int wait_for(pid_t pid) {
        int status;

        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

/* As nobody, and its child, and so on. */
static int child(struct tslab *pool, tslab_handle handle, unsigned depth) {
        pid_t pid;

        if (depth > 0) {
                pid = fork();
                if (pid == 0)
                        leave(pool, child(pool, handle, depth - 1));
                if (wait_for(pid) != 0)
                        return 1;
        }
        return report(use(pool, handle));
}

static int nobody(struct tslab *pool, tslab_handle handle, const char *dir) {
        Report r = become_nobody(dir);

        return r.line ? report(r) : child(pool, handle, DEPTH);
}

/* Stays, attached, until it is told to go. */
static int sibling(struct tslab *pool, tslab_handle handle) {
        int r = report(use(pool, handle));

        return role_read(&(char){ 0 }, 1) ? r : 1;
}

/* All children at once, each on its own connection. */
static int siblings(struct tslab *pool, tslab_handle handle) {
        pid_t pids[N_CHILDREN];
        int failed = 0;

        for (size_t i = 0; i < N_CHILDREN; i++) {
                pids[i] = i % 2 ? fork() : (pid_t) syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
                if (pids[i] == 0)
                        leave(pool, sibling(pool, handle));
        }
        for (size_t i = 0; i < N_CHILDREN; i++)
                failed |= wait_for(pids[i]);
        return failed;
}

/* Its first call comes when there is no parent. When the test dies, stdin ends. */
static int orphan(struct tslab *pool, tslab_handle handle, const char *dir) {
        int alive[2];
        struct pollfd end = { .events = POLLIN };
        pid_t pid;

        if (pipe(alive) < 0)
                return 1;
        pid = fork();
        if (pid > 0) {
                (void) tslab_drain(pool);
                _exit(0); /* with the pool open */
        }
        close(alive[1]);
        end.fd = alive[0];
        (void) poll(&end, 1, -1);
        /* Nobody tells when the daemon has seen that it died; the test does. */
        if (!role_read(&(char){ 0 }, 1))
                return 1;
        if (dir) {
                Report r = become_nobody(dir);

                if (r.line != 0)
                        return report(r);
        }
        return report(use(pool, handle));
}

/* A daemon that answers nothing is waited for once, until it answers again. */
static int unanswered(struct tslab *pool, tslab_handle handle) {
        uint64_t begin = proto_now_usec();
        tslab_handle h;
        void *object;

        for (unsigned i = 0; i < N_UNANSWERED; i++)
                if (tslab_alloc(pool, 200, TSLAB_EPOCH_CURRENT, &h, &object) != -ETIMEDOUT)
                        return 1;
        if (proto_now_usec() - begin > N_UNANSWERED / 2 * TIMEOUT_MS * UINT64_C(1000))
                return 1;
        role_write("w", 1);
        if (!role_read(&(char){ 0 }, 1))
                return 1;
        while (tslab_alloc(pool, 200, TSLAB_EPOCH_CURRENT, &h, &object) == -ETIMEDOUT)
                usleep(1000);
        return tslab_free(pool, h) == 0 ? report(use(pool, handle)) : 1;
}

/* Its child has not attached when the daemon stops. */
static int parent_of_unanswered(struct tslab *pool, tslab_handle handle) {
        pid_t pid = fork();

        if (pid == 0)
                leave(pool, role_read(&(char){ 0 }, 1) ? unanswered(pool, handle) : 1);
        return wait_for(pid);
}

static int make_sendmsg_fail(int error) {
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t) error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ?: prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* -ENOBUFS of a call that allocates means: too many objects are pending. */
static int sends_nothing(struct tslab *pool, int error) {
        int expected = error == ENOBUFS ? -ENOMEM : -EMFILE;
        tslab_handle handle;
        void *object;
        pid_t pid;

        pid = fork();
        if (pid == 0)
                leave(pool, make_sendmsg_fail(error) < 0 ||
                                    tslab_alloc_pending(pool, 200, TSLAB_EPOCH_CURRENT, &handle, &object) !=
                                            expected ||
                                    tslab_epoch_advance(pool, NULL) != expected);
        return wait_for(pid);
}

static int client(const char *what, const char *socket, const char *dir) {
        const struct tslab_options options = { .size = sizeof(options), .timeout_ms = TIMEOUT_MS };
        struct tslab *pool;
        tslab_handle handle;
        void *object;

        if (tslab_open(&pool, socket, strcmp(what, "unanswered") == 0 ? &options : NULL) < 0 ||
            tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handle, &object) < 0)
                return 1;
        pattern_fill(object, 128, 1, 1);
        if (strcmp(what, "nobody") == 0) {
                pid_t pid = fork();

                if (pid == 0)
                        leave(pool, nobody(pool, handle, dir));
                if (wait_for(pid) != 0)
                        return 2;
        } else if (strcmp(what, "siblings") == 0) {
                if (siblings(pool, handle) != 0)
                        return 3;
        } else if (strcmp(what, "unanswered") == 0) {
                if (parent_of_unanswered(pool, handle) != 0)
                        return 5;
        } else if (strcmp(what, "short") == 0) {
                if (sends_nothing(pool, ENOBUFS) != 0 || sends_nothing(pool, ETOOMANYREFS) != 0)
                        return 6;
        } else {
                /* There is no /proc, which sanitizers need at exit. */
                leave(pool, orphan(pool, handle, strcmp(what, "orphan-nobody") == 0 ? dir : NULL));
        }
        if (report(use(pool, handle)))
                return 4;
        tslab_close(pool);
        return 0;
}

/* ---- in the test */

typedef struct Fixture {
        DaemonFixture daemon;
        char dir[32];
} Fixture;

static int setup(void **state) {
        static Fixture f;

        strcpy(f.dir, "/tmp/tslab-root-XXXXXX");
        assert_non_null(mkdtemp(f.dir));
        daemon_start(&f.daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        *state = &f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        ctl_check(&f->daemon);
        daemon_stop(&f->daemon);
        assert_int_equal(rmdir(f->dir), 0);
        return 0;
}

/* The reports of all children; the one object of each is still there. */
static void hear_all(Fixture *f, Role *p, size_t n) {
        struct tslab *pool;

        assert_int_equal(tslab_open(&pool, f->daemon.socket, NULL), 0);
        for (size_t i = 0; i < n; i++) {
                Report r = { .line = -1 };
                void *object;

                role_hear(p, &r, sizeof(r));
                if (r.line != 0)
                        print_error("line %d: %s\n", r.line, strerror(-r.error));
                assert_int_equal(r.line, 0);
                assert_int_equal(tslab_get(pool, r.handle, &object, NULL), 0);
                assert_true(pattern_check(object, 200, 2));
                assert_int_equal(tslab_free(pool, r.handle), 0);
        }
        tslab_close(pool);
}

static void test_fork_then_another_root_and_user(void **state) {
        Fixture *f = *state;
        Role p;

        if (geteuid() != 0)
                skip();
        role_start(&p, "nobody", f->daemon.socket, f->dir);
        hear_all(f, &p, DEPTH + 2); /* the descendants, the first child, and its parent */
        assert_int_equal(role_wait(&p), 0);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 0);
        assert_int_equal(ctl_stat(&f->daemon, "threads"), 0);
}

static void test_fork_many_at_once(void **state) {
        Fixture *f = *state;
        Role p;

        role_start(&p, "siblings", f->daemon.socket, f->dir);
        hear_all(f, &p, N_CHILDREN);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == N_CHILDREN + 1); /* without us */
        role_tell(&p, "gggggggg", N_CHILDREN);
        hear_all(f, &p, 1);
        assert_int_equal(role_wait(&p), 0);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 0);
        assert_int_equal(ctl_stat(&f->daemon, "threads"), 0);
}

static void test_fork_of_a_daemon_that_does_not_answer(void **state) {
        Fixture *f = *state;
        Role p;
        char c;

        role_start(&p, "unanswered", f->daemon.socket, f->dir);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 1);
        assert_int_equal(kill(f->daemon.pid, SIGSTOP), 0);
        role_tell(&p, "g", 1);
        role_hear(&p, &c, 1);
        assert_int_equal(kill(f->daemon.pid, SIGCONT), 0);
        role_tell(&p, "g", 1);
        hear_all(f, &p, 2); /* the child's, and its parent's */
        assert_int_equal(role_wait(&p), 0);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 0);
}

static void test_fork_short_of_kernel_memory(void **state) {
        Fixture *f = *state;
        Role p;

        role_start(&p, "short", f->daemon.socket, f->dir);
        hear_all(f, &p, 1);
        assert_int_equal(role_wait(&p), 0);
}

static void orphan_of(Fixture *f, const char *what) {
        Role p;
        int status;

        role_start(&p, what, f->daemon.socket, f->dir);
        assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
        assert_int_equal(status, 0);
        /* The parent is gone for the daemon too. */
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 0);
        role_tell(&p, "g", 1);
        hear_all(f, &p, 1);
        close(p.to);
        close(p.from);
        WAIT_FOR(ctl_stat(&f->daemon, "clients") == 0);
        assert_int_equal(ctl_stat(&f->daemon, "threads"), 0);
}

static void test_fork_first_call_after_the_parent_died(void **state) {
        orphan_of(*state, "orphan");
}

static void test_fork_orphan_with_another_root_and_user(void **state) {
        if (geteuid() != 0)
                skip();
        orphan_of(*state, "orphan-nobody");
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fork_then_another_root_and_user),
                cmocka_unit_test(test_fork_many_at_once),
                cmocka_unit_test(test_fork_of_a_daemon_that_does_not_answer),
                cmocka_unit_test(test_fork_short_of_kernel_memory),
                cmocka_unit_test(test_fork_first_call_after_the_parent_died),
                cmocka_unit_test(test_fork_orphan_with_another_root_and_user),
        };

        if (argc == 4)
                return client(argv[1], argv[2], argv[3]);
        return cmocka_run_group_tests(tests, setup, teardown);
}
