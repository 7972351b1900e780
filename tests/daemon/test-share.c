/*
 * One user takes as much of a pool as possible. Another user still attaches, an operator can work, and all entries come
 * back when the first user's processes die.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define N_THREADS 127U /* records; there is one entry for processes more */
#define N_KEPT 2U
#define N_OPENS_MAX 2000U
#define GREEDY "65534"
#define OTHER "65533"
#define THIRD "65532"
#define OPERATORS 65525 /* a group */
#define N_IDLE 1200U

typedef struct Answer {
        int64_t r; /* the last error */
        uint64_t n; /* how often it went well */
} Answer;

/* ---- in a worker */

static int use(struct tslab *pool) {
        tslab_handle handle;
        void *object;
        int r = tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handle, &object);

        return r < 0 ? r : tslab_free(pool, handle);
}

/* Its connections stay open. */
static Answer open_pools(const char *socket, uint32_t flags, unsigned n_max) {
        struct tslab_options options = { .size = sizeof(options), .flags = flags };
        struct tslab *pool;
        Answer a = {};

        while (a.r == 0 && a.n < n_max) {
                a.r = tslab_open(&pool, socket, &options);
                if (a.r == 0 && n_max == 1 && !(flags & TSLAB_READER))
                        a.r = use(pool);
                a.n += a.r == 0;
        }
        return a;
}

static pthread_barrier_t together;

/* All take their records at once: what each reads of the others' is old by then. */
static void *thread(void *userdata) {
        (void) pthread_barrier_wait(&together);
        if (use(userdata) != 0)
                abort();
        (void) pthread_barrier_wait(&together);
        for (;;)
                pause();
}

/* More than there are records. */
static Answer start_threads(const char *socket) {
        struct tslab *pool;
        pthread_t id;
        Answer a = { .r = tslab_open(&pool, socket, NULL) };

        (void) pthread_barrier_init(&together, NULL, 2 * N_THREADS + 1);
        for (; a.r == 0 && a.n < 2 * N_THREADS; a.n++)
                a.r = -pthread_create(&id, NULL, thread, pool);
        for (unsigned i = 0; a.r == 0 && i < 2; i++)
                (void) pthread_barrier_wait(&together);
        return a;
}

/* Its answer says that the daemon has seen all earlier messages. */
static int ask(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochList list = TSLAB__EPOCH_LIST__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LIST;
        request.epoch_list = &list;
        return proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);
}

/* Is told of events from then on, and so never idle. */
static int watch(ProtoCall *call) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Watch body = TSLAB__WATCH__INIT;
        int r;

        request.id = 1; /* as hello was: no call takes an event for its answer */
        request.body_case = TSLAB__REQUEST__BODY_WATCH;
        request.watch = &body;
        r = proto_request_send(proto_call_fd(call), &request, NULL, 0, NULL);
        return r ?: ask(call);
}

static Answer connect_all(const char *socket, bool watches, unsigned n_max) {
        ProtoHello hello = PROTO_HELLO_INIT;
        Answer a = {};

        hello.software = hello.comm = (char *) "greedy";
        while (a.r == 0 && a.n < n_max) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                ProtoCall *call = NULL; /* stays */
                int r = proto_call_open(&call, socket, &hello, DAEMON_TIMEOUT_USEC, &reply);

                if (r == 0 && watches)
                        r = watch(call);
                a.r = r == PROTO_E_REFUSED && reply ? reply->error : r;
                a.n += r == 0;
        }
        return a;
}

static int worker(const char *socket, const char *user, const char *what) {
        uid_t uid = (uid_t) atoi(user);
        bool operates = !strcmp(what, "operator");
        char byte;
        Answer a;

        if (setgroups(operates, &(gid_t){ OPERATORS }) < 0 || setresgid(uid, uid, uid) < 0 ||
            setresuid(uid, uid, uid) < 0)
                return 1;
        if (!strcmp(what, "threads"))
                a = start_threads(socket);
        else if (!strcmp(what, "connections"))
                a = connect_all(socket, true, N_OPENS_MAX);
        else if (!strcmp(what, "idle"))
                a = connect_all(socket, false, N_IDLE);
        else
                a = open_pools(socket, !strncmp(what, "reader", 6) ? TSLAB_READER : 0,
                               operates || !strcmp(what, "once") || !strcmp(what, "reader") ? 1
                                                                                            : N_OPENS_MAX);
        role_write(&a, sizeof(a));
        (void) role_read(&byte, 1);
        return 0;
}

/* ---- in the test */

static int log_fd = -1; /* the daemon's output */

static int start_daemon(void **state, const char *threads) {
        static DaemonFixture daemon;
        struct rlimit limit;
        int saved = dup(STDERR_FILENO);

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        log_fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
        assert_true(saved >= 0 && log_fd >= 0);
        assert_int_equal(dup2(log_fd, STDERR_FILENO), STDERR_FILENO);
        daemon_start(&daemon, (const char *[]){ "--size=16M", "--mode=0666", threads, "--operators=@65525",
                                                "--log-level=warning", NULL });
        assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
        close(saved);
        *state = &daemon;
        return 0;
}

static int setup(void **state) {
        return start_daemon(state, "--threads=127");
}

/* The daemon keeps none of so few records back. */
static int setup_small(void **state) {
        return start_daemon(state, "--threads=8");
}

static int teardown(void **state) {
        daemon_stop(*state);
        close(log_fd);
        return 0;
}

static Answer start(Role *role, const DaemonFixture *daemon, const char *user, const char *what) {
        Answer a;

        role_start(role, "worker", daemon->socket, user, what);
        role_hear(role, &a, sizeof(a));
        return a;
}

static void end(Role *role) {
        assert_int_equal(kill(role->pid, SIGKILL), 0);
        assert_int_equal(role_wait(role), -SIGKILL);
}

static uint32_t n_clients(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);

        return daemon_n_clients(call);
}

/* Another user with one process, and an operator. When it returns, the daemon has cleaned up after them. */
static void expect_room(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);
        uint32_t before = daemon_n_clients(call);
        Role other;
        Answer a = start(&other, daemon, OTHER, "once");

        assert_int_equal(a.r, 0);
        (void) daemon_advance(call);
        ctl_check(daemon);
        end(&other);
        /* The repair of a dead process takes turns with new connections: the user's next process could come before. */
        WAIT_FOR(daemon_n_clients(call) == before);
}

static uint64_t take_all(const DaemonFixture *daemon, const char *what) {
        Role greedy, again;
        Answer a = start(&greedy, daemon, GREEDY, what), b;

        assert_int_equal(a.r, -EDQUOT);
        expect_room(daemon);
        b = start(&again, daemon, GREEDY, "once"); /* in another process */
        assert_int_equal(b.r, -EDQUOT);
        assert_int_equal(role_wait(&again), 0);
        expect_room(daemon);
        end(&greedy);
        WAIT_FOR(n_clients(daemon) == 0);
        return a.n;
}

static unsigned times_said(void) {
        char text[8192] = "";
        unsigned n = 0;

        assert_true(pread(log_fd, text, sizeof(text) - 1, 0) >= 0);
        for (const char *at = text; (at = strstr(at, "are kept for operators and users that have few")); at++)
                n++;
        return n;
}

static void test_clients(void **state) {
        uint64_t n = take_all(*state, "pools");

        assert_in_range(n, N_THREADS - N_KEPT - 1, N_THREADS - 1); /* nearly all are anybody's */
        assert_int_equal(take_all(*state, "pools"), n);
}

/* Which have no records: entries for processes run short. */
static void test_readers(void **state) {
        uint64_t n = take_all(*state, "readers");

        assert_in_range(n, N_THREADS + 1 - N_KEPT - 1, N_THREADS);
        assert_int_equal(take_all(*state, "readers"), n);
        assert_in_range(times_said(), 1, 2); /* once a minute, and a loaded machine may take longer */
}

/* Full is full, also for a user with none: nobody has too many. */
static void fill_small(const DaemonFixture *daemon, const char *what, uint64_t n) {
        Role greedy, other;
        Answer a = start(&greedy, daemon, GREEDY, what);

        assert_int_equal(a.r, -EUSERS);
        assert_int_equal(a.n, n);
        assert_int_equal(start(&other, daemon, OTHER, what).r, -EUSERS);
        assert_int_equal(role_wait(&other), 0);
        assert_int_equal(times_said(), 0);
        end(&greedy);
        WAIT_FOR(n_clients(daemon) == 0);
}

static void test_small_clients(void **state) {
        fill_small(*state, "pools", 8);
}

static void test_small_readers(void **state) {
        fill_small(*state, "readers", 9);
}

/* The last daemon died before it wrote the entry's user: it counts as another's until its process connects. */
static void test_user_after_takeover(void **state) {
        DaemonFixture *daemon = *state;
        char adopt[32];
        RawClient client, again;
        Role greedy, other;

        raw_client_open(&client, daemon, 0);
        assert_int_equal(start(&greedy, daemon, GREEDY, "readers").r, -EDQUOT);
        client.arena.clients[client.client].uid = (uint32_t) atoi(OTHER);
        daemon_kill(daemon);
        (void) snprintf(adopt, sizeof(adopt), "--adopt=%d", (int) getpid());
        daemon_restart(daemon, (const char *[]){ "--size=16M", "--mode=0666", "--threads=127", adopt,
                                                 "--log-level=err", NULL });
        raw_client_attach(&again, daemon_connect(daemon, 0), PROTO_ROLE_OPERATOR, client.client + 1);
        assert_int_equal(again.client, client.client);

        assert_int_equal(start(&other, daemon, OTHER, "reader").r, 0);
        end(&other);
        end(&greedy);
        raw_client_close(&again);
        raw_client_close(&client);
        WAIT_FOR(n_clients(daemon) == 0);
}

/* Threads that find no record share one. */
static void test_threads(void **state) {
        const DaemonFixture *daemon = *state;
        Role greedy;
        Answer a = start(&greedy, daemon, GREEDY, "threads");

        assert_int_equal(a.r, 0);
        assert_true(ctl_stat(daemon, "records_shared") > 0);
        expect_room(daemon);
        end(&greedy);
        WAIT_FOR(n_clients(daemon) == 0);
}

static void test_connections(void **state) {
        uint64_t n = take_all(*state, "connections");

        assert_in_range(n, 900, 1023);
        assert_int_equal(take_all(*state, "connections"), n);
}

/* By a group that is not his first; another process of his takes all else. */
static void test_operator_by_group(void **state) {
        const DaemonFixture *daemon = *state;
        Role greedy, operator;

        assert_int_equal(start(&greedy, daemon, GREEDY, "connections").r, -EDQUOT);
        assert_int_equal(start(&operator, daemon, GREEDY, "operator").r, 0);
        expect_room(daemon);
        end(&operator);
        end(&greedy);
        WAIT_FOR(n_clients(daemon) == 0);
}

/* Each user has fewer than are left: some remain for the next user. */
static void test_two_greedy(void **state) {
        const DaemonFixture *daemon = *state;
        Role roles[2];

        assert_int_equal(start(&roles[0], daemon, GREEDY, "connections").r, -EDQUOT);
        assert_int_equal(start(&roles[1], daemon, THIRD, "connections").r, -EDQUOT);
        expect_room(daemon);
        end(&roles[0]);
        end(&roles[1]);
        WAIT_FOR(n_clients(daemon) == 0);
}

/* Idle connections: a user that takes the connections of others gets its share, and no more. */
static void test_idle_connections(void **state) {
        static const char *const users[] = { "65531", "65530", "65529", "65528", "65527", "65526" };
        enum { N = sizeof(users) / sizeof(users[0]) };
        const DaemonFixture *daemon = *state;
        Role greedy, roles[N];
        Answer a = start(&greedy, daemon, GREEDY, "idle");

        assert_int_equal(a.r, 0); /* he replaces his own */
        assert_int_equal(a.n, N_IDLE);
        for (int i = 0; i < N; i++) {
                a = start(&roles[i], daemon, users[i], "connections");
                assert_int_equal(a.r, -EDQUOT);
                assert_in_range(a.n, 31, 33);
        }
        expect_room(daemon);
        for (int i = 0; i < N; i++)
                end(&roles[i]);
        end(&greedy);
        WAIT_FOR(n_clients(daemon) == 0);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_clients, setup, teardown),
                cmocka_unit_test_setup_teardown(test_readers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_small_clients, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_small_readers, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_user_after_takeover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_connections, setup, teardown),
                cmocka_unit_test_setup_teardown(test_operator_by_group, setup, teardown),
                cmocka_unit_test_setup_teardown(test_two_greedy, setup, teardown),
                cmocka_unit_test_setup_teardown(test_idle_connections, setup, teardown),
        };

        if (argc == 5)
                return worker(argv[2], argv[3], argv[4]);
        if (geteuid() != 0)
                return 77; /* skipped: users are to be changed */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
