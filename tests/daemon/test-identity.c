/*
 * The owners of the arena's client entries: several handles in one process, programs that execute others, and
 * daemons that are killed meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/parent.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_HANDLES 4
#define N_OBJECTS 50
#define N_THREADS 4
#define N_KILLS 40

typedef enum Op { OPEN, OPEN_READER, USE, ADVANCE, CLOSE, CHURN, EXEC_OTHER, END_FIRST_THREAD } Op;

typedef struct Request {
        Op op;
        uint32_t handle; /* a number below N_HANDLES */
} Request;

/* ---- in a worker */

static const char *worker_socket;
static struct tslab *pools[N_HANDLES];
static pthread_t churners[N_THREADS];

/* Leaves objects in the caches of this thread, and none that live. */
static int use(struct tslab *pool) {
        tslab_handle handles[N_OBJECTS];
        int r = 0;

        for (int i = 0; i < N_OBJECTS && r == 0; i++)
                r = tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handles[i], NULL);
        for (int i = 0; i < N_OBJECTS && r == 0; i++)
                r = tslab_free(pool, handles[i]);
        return r;
}

static void *churn(void *userdata) {
        while (use(userdata) == 0)
                ;
        return NULL;
}

static int start_churners(void) {
        for (uint32_t i = 0; i < N_THREADS; i++)
                if (pthread_create(&churners[i], NULL, churn, pools[i % 2]) != 0)
                        return -EAGAIN;
        return 0;
}

static int open_pool(uint32_t handle, uint32_t flags) {
        struct tslab_options options = { .size = sizeof(options), .flags = flags };

        return tslab_open(&pools[handle], worker_socket, &options);
}

static void *answer_from_thread(void *userdata);

static int answer(const Request *q) {
        pthread_t thread;

        switch (q->op) {
        case OPEN:
                return open_pool(q->handle, 0);
        case OPEN_READER:
                return open_pool(q->handle, TSLAB_READER);
        case USE:
                return use(pools[q->handle]);
        case ADVANCE:
                return tslab_epoch_advance(pools[q->handle], NULL);
        case CLOSE:
                pools[q->handle] = tslab_close(pools[q->handle]);
                return 0;
        case CHURN:
                return start_churners();
        case EXEC_OTHER:
                return execlp("cat", "cat", NULL);
        case END_FIRST_THREAD:
                if (pthread_create(&thread, NULL, answer_from_thread, NULL) != 0)
                        return -EAGAIN;
                pthread_exit(NULL);
        }
        return -EINVAL;
}

static void answer_all(void) {
        Request request;
        int r;

        while (role_read(&request, sizeof(request))) {
                r = answer(&request);
                role_write(&r, sizeof(r));
        }
}

static void *answer_from_thread(void *userdata) {
        int r = 0;

        role_write(&r, sizeof(r)); /* for the first thread, which has ended, or is about to */
        answer_all();
        _exit(0);
}

/* A child that has the connection of its parent open as long as that lives. */
static void leave_child(void) {
        if (fork() != 0)
                return;
        end_with_parent();
        for (;;)
                pause();
}

/* Executes itself as often as it is told, with the pool open each time. */
static int execute_self(const char *count) {
        int n = atoi(count), r = open_pool(0, 0);
        char next[16];

        if (r == 0)
                r = use(pools[0]);
        if (n < 4)
                leave_child();
        if (r == 0 && n > 0) {
                (void) snprintf(next, sizeof(next), "%d", n - 1);
                (void) execl("/proc/self/exe", "test", "exec", worker_socket, next, NULL);
                r = -errno;
        }
        role_write(&r, sizeof(r));
        answer_all();
        return 0;
}

/* Opens and closes until nobody listens any more; daemons come and go. */
static int open_and_close(void) {
        Request request;
        int r = 0;

        (void) fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
        role_write(&r, sizeof(r));
        while (read(STDIN_FILENO, &request, sizeof(request)) < 0) {
                r = open_pool(0, 0);
                if (r == 0)
                        pools[0] = tslab_close(pools[0]);
                else if (r != -ECONNREFUSED && r != -ECONNRESET && r != -ENOENT)
                        break;
        }
        (void) fcntl(STDIN_FILENO, F_SETFL, 0);
        if (pools[0] == NULL && open_pool(0, 0) == 0)
                r = 0;
        pools[0] = tslab_close(pools[0]);
        role_write(&r, sizeof(r));
        answer_all();
        return 0;
}

static int worker(int argc, char **argv) {
        worker_socket = argv[2];
        if (!strcmp(argv[1], "exec"))
                return execute_self(argv[3]);
        if (!strcmp(argv[1], "loop"))
                return open_and_close();
        answer_all();
        return 0;
}

/* ---- in the test */

static int try(Role *role, Op op, uint32_t handle) {
        Request request = { .op = op, .handle = handle };
        int r;

        role_tell(role, &request, sizeof(request));
        role_hear(role, &r, sizeof(r));
        return r;
}

#define ASK(_role, _op, _handle) assert_int_equal(try((_role), (_op), (_handle)), 0)

static void start(DaemonFixture *daemon) {
        daemon_start(daemon, (const char *[]){ "--size=16M", "--threads=64", "--log-level=err", NULL });
}

static void adopt(DaemonFixture *daemon, pid_t pid) {
        char text[32];

        (void) snprintf(text, sizeof(text), "--adopt=%d", (int) pid);
        daemon_restart(daemon, (const char *[]){ "--size=16M", "--log-level=err", text, NULL });
}

static uint32_t n_clients(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);

        return daemon_n_clients(call);
}

static ProtoReply *list_clients(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Clients body = TSLAB__CLIENTS__INIT;

        request.body_case = TSLAB__REQUEST__BODY_CLIENTS;
        request.clients = &body;
        return daemon_call(call, &request, NULL);
}

/* Attached clients of the process that have this role and so many records. */
static uint32_t count(const DaemonFixture *daemon, pid_t pid, uint32_t role, uint32_t n_threads) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = list_clients(daemon);
        uint32_t n = 0;

        for (size_t i = 0; i < reply->clients->n_clients; i++) {
                const Tslab__ClientInfo *client = reply->clients->clients[i];

                n += !client->control_only && client->pid == pid && client->role == role &&
                     client->threads == n_threads;
        }
        return n;
}

static void end_well(DaemonFixture *daemon) {
        WAIT_FOR(n_clients(daemon) == 0);
        WAIT_FOR(ctl_stat(daemon, "threads") == 0);
        assert_int_equal(ctl_stat(daemon, "cached_objects"), 0);
        ctl_check(daemon);
        daemon_stop(daemon);
}

/* Each goes on with its own entry, whichever connects first, and so each gives its own records back. */
static void check_two_handles(uint32_t first) {
        DaemonFixture daemon;
        Role role;

        start(&daemon);
        role_start(&role, "worker", daemon.socket);
        for (uint32_t i = 0; i < 2; i++) {
                ASK(&role, OPEN, i);
                ASK(&role, USE, i);
        }
        daemon_kill(&daemon);
        adopt(&daemon, role.pid);
        ASK(&role, ADVANCE, first);
        ASK(&role, ADVANCE, !first);
        assert_int_equal(count(&daemon, role.pid, PROTO_ROLE_OPERATOR, 2), 2);
        for (uint32_t i = 0; i < 2; i++)
                ASK(&role, USE, i);
        ASK(&role, CLOSE, first);
        WAIT_FOR(ctl_stat(&daemon, "threads") == 2);
        ASK(&role, ADVANCE, !first);
        ASK(&role, CLOSE, !first);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), 0);
        end_well(&daemon);
        assert_int_equal(role_wait(&role), 0);
}

static void test_identity_two_handles(void **state) {
        check_two_handles(0);
        check_two_handles(1);
}

/* A handle that is opened after the restart does not get the entry of one that has not connected yet. */
static void test_identity_new_handle(void **state) {
        DaemonFixture daemon;
        Role role;

        start(&daemon);
        role_start(&role, "worker", daemon.socket);
        ASK(&role, OPEN, 0);
        ASK(&role, USE, 0);
        daemon_kill(&daemon);
        adopt(&daemon, role.pid);
        ASK(&role, OPEN, 1);
        ASK(&role, USE, 1);
        assert_int_equal(count(&daemon, role.pid, PROTO_ROLE_OPERATOR, 2), 2);
        ASK(&role, ADVANCE, 0);
        ASK(&role, CLOSE, 0);
        ASK(&role, CLOSE, 1);
        end_well(&daemon);
        assert_int_equal(role_wait(&role), 0);
}

/* It waits for threads inside calls on its own records. */
static void test_identity_close_beside_calls(void **state) {
        DaemonFixture daemon;
        Role role;

        start(&daemon);
        role_start(&role, "worker", daemon.socket);
        for (uint32_t i = 0; i < 2; i++)
                ASK(&role, OPEN, i);
        ASK(&role, CHURN, 0);
        daemon_kill(&daemon);
        adopt(&daemon, role.pid);
        for (uint32_t i = 0; i < 2; i++)
                ASK(&role, ADVANCE, i);
        for (uint32_t i = 0; i < 2; i++)
                ASK(&role, CLOSE, i);
        end_well(&daemon);
        assert_int_equal(role_wait(&role), 0);
}

/* The records of each program are released: 64 threads are enough for any number of programs. */
static void test_identity_exec_self(void **state) {
        DaemonFixture daemon;
        Role role;
        int r;

        start(&daemon);
        role_start(&role, "exec", daemon.socket, "1200");
        role_hear(&role, &r, sizeof(r));
        assert_int_equal(r, 0);
        WAIT_FOR(n_clients(&daemon) == 1);
        WAIT_FOR(ctl_stat(&daemon, "threads") == 2);
        ASK(&role, USE, 0);
        ASK(&role, CLOSE, 0);
        assert_int_equal(role_wait(&role), 0);
        end_well(&daemon);
}

static void start_and_open(Role *role, const DaemonFixture *daemon, Op how) {
        role_start(role, "worker", daemon->socket);
        ASK(role, how, 0);
        if (how == OPEN)
                ASK(role, USE, 0);
}

static void execute_other(Role *role) {
        Request request = { .op = EXEC_OTHER };

        role_tell(role, &request, sizeof(request));
}

/* With its end of the pipes, which says so. */
static void end_other(Role *role) {
        assert_int_equal(kill(role->pid, 0), 0); /* it lived on */
        assert_int_equal(role_wait(role), 0);
}

static void test_identity_exec_other(void **state) {
        Role writer, reader, keeper;
        DaemonFixture daemon;

        start(&daemon);
        start_and_open(&writer, &daemon, OPEN);
        start_and_open(&reader, &daemon, OPEN_READER);
        execute_other(&writer);
        execute_other(&reader);
        WAIT_FOR(n_clients(&daemon) == 0);
        WAIT_FOR(ctl_stat(&daemon, "threads") == 0);
        ctl_check(&daemon);
        end_other(&writer);
        end_other(&reader);

        /* While there is no daemon. */
        start_and_open(&keeper, &daemon, OPEN);
        start_and_open(&writer, &daemon, OPEN);
        start_and_open(&reader, &daemon, OPEN_READER);
        daemon_kill(&daemon);
        execute_other(&writer);
        execute_other(&reader);
        adopt(&daemon, keeper.pid);
        WAIT_FOR(n_clients(&daemon) == 1);
        WAIT_FOR(ctl_stat(&daemon, "threads") == 2);
        end_other(&writer);
        end_other(&reader);
        assert_int_equal(role_wait(&keeper), 0);
        end_well(&daemon);
}

/* Clients without a connection that use the arena are not taken for such, while others that do not are. */
static void test_identity_users_stay(void **state) {
        Role writer, reader, headless, other;
        DaemonFixture daemon;

        start(&daemon);
        start_and_open(&writer, &daemon, OPEN);
        start_and_open(&reader, &daemon, OPEN_READER);
        start_and_open(&headless, &daemon, OPEN);
        ASK(&headless, END_FIRST_THREAD, 0);
        ASK(&headless, USE, 0);
        start_and_open(&other, &daemon, OPEN);
        daemon_kill(&daemon);
        adopt(&daemon, writer.pid);
        for (int i = 0; i < 2; i++) {
                execute_other(&other);
                WAIT_FOR(n_clients(&daemon) == 3);
                end_other(&other);
                if (i == 0)
                        start_and_open(&other, &daemon, OPEN);
        }
        assert_int_equal(count(&daemon, writer.pid, PROTO_ROLE_OPERATOR, 2), 1);
        assert_int_equal(count(&daemon, reader.pid, PROTO_ROLE_READER, 0), 1);
        assert_int_equal(count(&daemon, headless.pid, PROTO_ROLE_OPERATOR, 2), 1);
        ASK(&headless, USE, 0);
        ASK(&headless, ADVANCE, 0);
        ASK(&writer, USE, 0);
        ASK(&headless, CLOSE, 0);
        ASK(&writer, CLOSE, 0);
        assert_int_equal(role_wait(&writer), 0);
        assert_int_equal(role_wait(&reader), 0);
        assert_int_equal(role_wait(&headless), 0);
        end_well(&daemon);
}

static void test_identity_closed_without_daemon(void **state) {
        Role writer, reader, keeper;
        DaemonFixture daemon;

        start(&daemon);
        start_and_open(&keeper, &daemon, OPEN);
        start_and_open(&writer, &daemon, OPEN);
        start_and_open(&reader, &daemon, OPEN_READER);
        for (uint32_t i = 1; i < 3; i++)
                ASK(&writer, OPEN, i);
        daemon_kill(&daemon);
        ASK(&writer, CLOSE, 0); /* it maps the arena yet, twice */
        ASK(&reader, CLOSE, 0);
        adopt(&daemon, keeper.pid);
        WAIT_FOR(n_clients(&daemon) == 3);
        assert_int_equal(count(&daemon, keeper.pid, PROTO_ROLE_OPERATOR, 2), 1);
        assert_int_equal(count(&daemon, writer.pid, PROTO_ROLE_OPERATOR, 1), 2);

        /* After a restart, before it connected again. */
        ASK(&writer, CLOSE, 1);
        WAIT_FOR(n_clients(&daemon) == 2);
        ASK(&writer, ADVANCE, 2);
        ASK(&writer, CLOSE, 2);
        WAIT_FOR(n_clients(&daemon) == 1);
        assert_int_equal(role_wait(&writer), 0);
        assert_int_equal(role_wait(&reader), 0);
        assert_int_equal(role_wait(&keeper), 0);
        end_well(&daemon);
}

static void test_identity_roles(void **state) {
        RawClient clients[3];
        DaemonFixture daemon;

        start(&daemon);
        for (uint32_t i = 0; i < 3; i++)
                raw_client_open(&clients[i], &daemon, i + 1);
        daemon_kill(&daemon);
        adopt(&daemon, getpid());
        assert_int_equal(count(&daemon, getpid(), PROTO_ROLE_READER, 0), 1);
        assert_int_equal(count(&daemon, getpid(), PROTO_ROLE_WRITER, 1), 1);
        assert_int_equal(count(&daemon, getpid(), PROTO_ROLE_OPERATOR, 1), 1);
        clients[0].call = proto_call_free(clients[0].call);
        shm_arena_deinit(&clients[0].arena);
        raw_client_close(&clients[1]);
        raw_client_close(&clients[2]);
        daemon_stop(&daemon);
}

/* Its daemon was killed when it had made the entry, or the process then gave up: no entry stays for that. */
static void test_identity_nobody_came(void **state) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        DaemonFixture daemon;
        Role keeper;

        start(&daemon);
        start_and_open(&keeper, &daemon, OPEN);
        call = daemon_connect(&daemon, PROTO_ROLE_WRITER);
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        reply = daemon_call(call, &request, &fds);
        assert_int_equal(n_clients(&daemon), 2);
        daemon_kill(&daemon);
        adopt(&daemon, keeper.pid);
        assert_int_equal(n_clients(&daemon), 1);
        assert_int_equal(role_wait(&keeper), 0);
        end_well(&daemon);
}

/* A daemon that is killed in the middle of an attach leaves no entry for good, and takes none from anybody. */
static void test_identity_killed_in_attach(void **state) {
        uint64_t seed = seed_get();
        DaemonFixture daemon;
        Role keeper, loop;
        int r;

        start(&daemon);
        start_and_open(&keeper, &daemon, OPEN);
        role_start(&loop, "loop", daemon.socket);
        role_hear(&loop, &r, sizeof(r));
        for (int i = 0; i < N_KILLS; i++) {
                usleep(seed_below(&seed, 3000));
                daemon_kill(&daemon);
                adopt(&daemon, keeper.pid);
        }
        role_tell(&loop, &(Request){}, sizeof(Request));
        role_hear(&loop, &r, sizeof(r));
        assert_int_equal(r, 0);
        WAIT_FOR(n_clients(&daemon) == 1);
        assert_int_equal(role_wait(&loop), 0);
        ASK(&keeper, ADVANCE, 0);
        ASK(&keeper, USE, 0);
        assert_int_equal(role_wait(&keeper), 0);
        end_well(&daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_identity_two_handles),
                cmocka_unit_test(test_identity_new_handle),
                cmocka_unit_test(test_identity_close_beside_calls),
                cmocka_unit_test(test_identity_exec_self),
                cmocka_unit_test(test_identity_exec_other),
                cmocka_unit_test(test_identity_users_stay),
                cmocka_unit_test(test_identity_closed_without_daemon),
                cmocka_unit_test(test_identity_roles),
                cmocka_unit_test(test_identity_nobody_came),
                cmocka_unit_test(test_identity_killed_in_attach),
        };

        if (argc >= 3)
                return worker(argc, argv);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
