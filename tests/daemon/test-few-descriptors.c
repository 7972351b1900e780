/*
 * A daemon that takes a pool over from one that was killed, and has fewer descriptors than the pool has
 * clients: it takes no live client for dead, and sees clients that die. And a daemon that has no descriptor left
 * for a program that attaches.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define N_CLIENTS 60U
#define N_EARLY 5U /* end while there is no daemon */
#define N_LATE 20U /* end when there is one again: watched ones, and others */
#define N_LEFT (N_CLIENTS - N_EARLY - 2 * N_LATE)
#define DESCRIPTORS 64U

typedef enum Op { ALLOC, GET, FREE, ADVANCE } Op;

/* ---- in a worker */

static int64_t answer(struct tslab *pool, Op op, tslab_handle *handle) {
        uint32_t epoch;
        void *object;

        switch (op) {
        case ALLOC:
                return tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, handle, NULL);
        case GET:
                return tslab_get(pool, *handle, &object, NULL);
        case FREE:
                return tslab_free(pool, *handle);
        case ADVANCE:
                return tslab_epoch_advance(pool, &epoch);
        }
        return -EINVAL;
}

static int worker(const char *socket) {
        struct tslab *pool;
        tslab_handle handle;
        int64_t r;
        Op op;

        r = tslab_open(&pool, socket, NULL);
        role_write(&r, sizeof(r));
        while (r == 0 && role_read(&op, sizeof(op))) {
                int64_t result = answer(pool, op, &handle);

                role_write(&result, sizeof(result));
        }
        return r == 0 ? 0 : 1;
}

/* ---- in the test */

static Role clients[N_CLIENTS];

static int64_t ask(Role *role, Op op) {
        int64_t r;

        role_tell(role, &op, sizeof(op));
        role_hear(role, &r, sizeof(r));
        return r;
}

static void end_clients(unsigned from, unsigned to, unsigned step) {
        for (unsigned i = from; i < to; i += step) {
                assert_int_equal(kill(clients[i].pid, SIGKILL), 0);
                assert_int_equal(role_wait(&clients[i]), -SIGKILL);
        }
}

static uint32_t n_clients(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);

        return daemon_n_clients(call);
}

static unsigned n_pidfds(const DaemonFixture *daemon) {
        char path[64], name[64];
        struct dirent *entry;
        unsigned n = 0;
        ssize_t size;
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) daemon->pid);
        dir = opendir(path);
        assert_non_null(dir);
        while ((entry = readdir(dir))) {
                size = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);
                name[size > 0 ? size : 0] = 0;
                n += strstr(name, "pidfd") != NULL;
        }
        closedir(dir);
        return n;
}

static void start_clients(const DaemonFixture *daemon) {
        int64_t r;

        for (unsigned i = 0; i < N_CLIENTS; i++) {
                role_start(&clients[i], "worker", daemon->socket);
                role_hear(&clients[i], &r, sizeof(r));
                assert_int_equal(r, 0);
                assert_int_equal(ask(&clients[i], ALLOC), 0);
        }
}

static void take_over(DaemonFixture *daemon, pid_t from) {
        char adopt[32];

        snprintf(adopt, sizeof(adopt), "--adopt=%d", (int) from);
        daemon_descriptors = DESCRIPTORS;
        daemon_restart(daemon, (const char *[]){ "--size=16M", "--log-level=err", adopt, NULL });
        daemon_descriptors = 0;
}

/* Each process's objects are still its own, and were given to nobody else. */
static void use_clients(unsigned from) {
        for (unsigned i = from; i < N_CLIENTS; i++) {
                assert_int_equal(ask(&clients[i], GET), 0);
                assert_int_equal(ask(&clients[i], FREE), 0);
                assert_int_equal(ask(&clients[i], ALLOC), 0);
        }
}

static void test_takeover(void **state) {
        DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        start_clients(&daemon);
        daemon_kill(&daemon);
        end_clients(0, N_EARLY, 1);
        take_over(&daemon, clients[N_CLIENTS - 1].pid);

        assert_true(n_pidfds(&daemon) < N_CLIENTS - N_EARLY);
        WAIT_FOR(n_clients(&daemon) == N_CLIENTS - N_EARLY);
        use_clients(N_EARLY);
        ctl_check(&daemon);
        /* From either end of the table, for one of which there was no descriptor left. */
        assert_int_equal(ask(&clients[N_EARLY], ADVANCE), 0);
        assert_int_equal(ask(&clients[N_CLIENTS - 1], ADVANCE), 0);

        end_clients(N_EARLY + 1, N_EARLY + 1 + 2 * N_LATE, 2);
        WAIT_FOR(n_clients(&daemon) == N_CLIENTS - N_EARLY - N_LATE);
        /* As others go, there is room for all that are left. */
        end_clients(N_EARLY + 2, N_EARLY + 2 + 2 * N_LATE, 2);
        WAIT_FOR(n_clients(&daemon) == N_LEFT && n_pidfds(&daemon) == N_LEFT);
        for (unsigned i = N_EARLY; i < N_CLIENTS; i++)
                if (clients[i].pid)
                        end_clients(i, i + 1, 1);
        WAIT_FOR(n_clients(&daemon) == 0);
        ctl_check(&daemon);
        daemon_stop(&daemon);
}

/* Lets the daemon have one more descriptor. */
static void leave_one(pid_t daemon) {
        struct rlimit limit;
        unsigned n_free = 0;
        char path[64];

        assert_int_equal(prlimit(daemon, RLIMIT_NOFILE, NULL, &limit), 0);
        for (limit.rlim_cur = 0; n_free < 2; limit.rlim_cur++) {
                (void) snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int) daemon,
                                (unsigned) limit.rlim_cur);
                n_free += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
        }
        limit.rlim_cur--; /* the second one is beyond the limit */
        assert_int_equal(prlimit(daemon, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* The daemon can accept the connection, and nothing else: its want of descriptors is not told as the program's. */
static void test_attach(void **state) {
        struct tslab_options options = { .size = sizeof(options), .timeout_ms = DAEMON_TIMEOUT_USEC / 1000 };
        DaemonFixture daemon;
        struct tslab *pool;
        struct rlimit usual;
        int r;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        assert_int_equal(prlimit(daemon.pid, RLIMIT_NOFILE, NULL, &usual), 0);
        /* It has more than one if it closes some at that moment: then once more. */
        do {
                leave_one(daemon.pid);
                r = tslab_open(&pool, daemon.socket, &options);
                if (r == 0)
                        tslab_close(pool);
                assert_int_equal(prlimit(daemon.pid, RLIMIT_NOFILE, &usual, NULL), 0);
        } while (r == 0);
        assert_int_equal(r, -EUSERS);
        assert_int_equal(tslab_open(&pool, daemon.socket, &options), 0);
        tslab_close(pool);
        ctl_check(&daemon);
        daemon_stop(&daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_takeover),
                cmocka_unit_test(test_attach),
        };

        if (argc == 3)
                return worker(argv[2]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
