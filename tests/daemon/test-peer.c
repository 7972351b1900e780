/* Peers of ill will, or merely broken: the daemon lives, and serves the others. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--epochs=4", "--log-level=err", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

/* A connection on which hello was said. */
static int connect_raw(const DaemonFixture *daemon) {
        ProtoCall *call = daemon_connect(daemon, 0);
        int fd = dup(proto_call_fd(call));

        assert_true(fd >= 0);
        (void) proto_call_free(call);
        return fd;
}

/* Only clients may send descriptors. */
static int connect_attached(const DaemonFixture *daemon) {
        ProtoCall *call = daemon_connect(daemon, 0);
        int fd = dup(proto_call_fd(call));

        assert_true(fd >= 0);
        daemon_attach(call);
        (void) proto_call_free(call);
        return fd;
}

static void wait_readable(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        assert_int_equal(poll(&p, 1, 60000), 1);
}

static void expect_error(int fd, uint64_t id, int error) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoFds fds;

        wait_readable(fd);
        assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
        assert_int_equal(reply->id, id);
        assert_int_equal(reply->error, error);
        assert_true(error == 0 || strlen(reply->message) > 0);
}

static void expect_hang_up(int fd) {
        ProtoReply *reply = NULL;
        ProtoFds fds;

        wait_readable(fd);
        assert_int_equal(proto_reply_receive(fd, &reply, &fds), PROTO_E_CLOSED);
}

static void send_stats(int fd, uint64_t id, const int *fds, size_t n_fds) {
        uint8_t data[64];
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        request.id = id;
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        assert_int_equal(proto_send(fd, data, tslab__request__pack(&request, data), fds, n_fds, NULL), 0);
}

static void test_garbage(void **state) {
        static const char *const garbage[] = { "\x08", "\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n",
                                               "\x08\x01\x82\x01\x7f" };

        for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
                int fd = connect_raw(*state);

                assert_int_equal(proto_send(fd, garbage[i], strlen(garbage[i]), NULL, 0, NULL), 0);
                expect_hang_up(fd);
                close(fd);
        }
        assert_true(daemon_answers(*state));
}

static void test_no_body(void **state) {
        int fd = connect_raw(*state);

        assert_int_equal(proto_send(fd, "\x08\x07", 2, NULL, 0, NULL), 0);
        expect_error(fd, 7, -EBADMSG);
        expect_hang_up(fd);
        close(fd);
}

static void test_oversized(void **state) {
        int fd = connect_raw(*state);
        size_t size = PROTO_MESSAGE_MAX + 1;
        char *data = calloc(1, size);

        assert_non_null(data);
        data[0] = 0x08;
        assert_int_equal(send(fd, data, size, 0), (ssize_t) size);
        expect_hang_up(fd);
        close(fd);
        free(data);
        assert_true(daemon_answers(*state));
}

/* Field 99 is nobody's; the connection stays good. */
static void test_unknown_type(void **state) {
        int fd = connect_raw(*state);
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoFds fds;

        assert_int_equal(proto_send(fd, "\x08\x09\x9a\x06\x00", 5, NULL, 0, NULL), 0);
        expect_error(fd, 9, -EOPNOTSUPP);
        send_stats(fd, 10, NULL, 0);
        wait_readable(fd);
        assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
        assert_int_equal(reply->id, 10);
        close(fd);
}

static int send_wrong_descriptors(const DaemonFixture *daemon, uint64_t argument) {
        int fd = connect_attached(daemon), null = open("/dev/null", O_RDONLY);

        send_stats(fd, 5, &null, 1);
        expect_error(fd, 5, -EBADMSG);
        expect_hang_up(fd);
        close(fd);
        close(null);
        return 0;
}

static void test_wrong_descriptors(void **state) {
        daemon_child(send_wrong_descriptors, *state, 0);
        assert_true(daemon_answers(*state));
}

static void send_fork_attach(int fd, int far_end) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__ForkAttach fork_attach = TSLAB__FORK_ATTACH__INIT;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_FORK_ATTACH;
        request.fork_attach = &fork_attach;
        assert_int_equal(proto_request_send(fd, &request, &far_end, 1, NULL), 0);
}

/* Sockets that are none, one of another kind, and the daemon's own: closed, all else goes on. */
static int send_wrong_sockets(const DaemonFixture *daemon, uint64_t argument) {
        int fd = connect_attached(daemon), pipes[2], tcp = socket(AF_INET, SOCK_STREAM, 0),
            second = connect_raw(daemon);
        char byte;

        assert_int_equal(pipe(pipes), 0);
        send_fork_attach(fd, pipes[1]);
        close(pipes[1]);
        wait_readable(pipes[0]);
        assert_int_equal(read(pipes[0], &byte, 1), 0);
        send_fork_attach(fd, tcp);
        send_fork_attach(fd, second);
        assert_true(daemon_answers(daemon));
        close(tcp);
        close(second);
        close(pipes[0]);
        close(fd);
        return 0;
}

static void test_fork_attach_wrong_socket(void **state) {
        daemon_child(send_wrong_sockets, *state, 0);
}

static void test_no_hello(void **state) {
        const DaemonFixture *daemon = *state;
        int fd, silent;

        assert_int_equal(proto_connect(daemon->socket, DAEMON_TIMEOUT_USEC, &silent), 0);
        assert_int_equal(proto_connect(daemon->socket, DAEMON_TIMEOUT_USEC, &fd), 0);
        send_stats(fd, 3, NULL, 0);
        expect_error(fd, 3, -EPROTO);
        expect_hang_up(fd);
        assert_true(daemon_answers(daemon));
        close(fd);
        close(silent);
}

static void test_many_connections(void **state) {
        ProtoCall *calls[200];

        for (size_t i = 0; i < 200; i++)
                calls[i] = daemon_connect(*state, 0);
        for (size_t i = 0; i < 200; i++) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(calls[i]);

                assert_string_equal(reply->stats->pool, "default");
        }
        for (size_t i = 0; i < 200; i++)
                calls[i] = proto_call_free(calls[i]);
        assert_true(daemon_answers(*state));
}

/* At the limit of descriptors, connections wait, and are served when others went. */
static void test_no_descriptors(void **state) {
        const DaemonFixture *daemon = *state;
        struct rlimit old, few = { .rlim_cur = 30, .rlim_max = 30 };
        int fds[40];

        assert_int_equal(prlimit(daemon->pid, RLIMIT_NOFILE, NULL, &old), 0);
        few.rlim_max = old.rlim_max;
        assert_int_equal(prlimit(daemon->pid, RLIMIT_NOFILE, &few, NULL), 0);
        for (size_t i = 0; i < 40; i++)
                assert_int_equal(proto_connect(daemon->socket, DAEMON_TIMEOUT_USEC, &fds[i]), 0);
        usleep(100000);
        for (size_t i = 0; i < 40; i++)
                close(fds[i]);
        assert_true(daemon_answers(daemon));
        assert_int_equal(prlimit(daemon->pid, RLIMIT_NOFILE, &old, NULL), 0);
}

/* The daemon does not read from a client that asks and does not read; it answers all when the client reads. */
static void test_slow_asker(void **state) {
        int fd = connect_raw(*state), r = 0;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        unsigned n = 0;

        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        for (unsigned quiet = 0; quiet < 5; quiet += r == PROTO_E_AGAIN) {
                request.id = n + 1;
                r = proto_request_send(fd, &request, NULL, 0, NULL);
                assert_true(r == 0 || r == PROTO_E_AGAIN);
                n += r == 0;
                if (r == PROTO_E_AGAIN)
                        usleep(30000);
                assert_true(n < 100000);
        }
        assert_true(daemon_answers(*state));
        for (unsigned i = 1; i <= n; i++) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                ProtoFds fds;

                wait_readable(fd);
                assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
                assert_int_equal(reply->id, i);
        }
        close(fd);
}

/* A watching client that does not read is dropped. */
static void test_slow_watcher(void **state) {
        int fd = connect_raw(*state), r;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(*state, 0);
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Watch watch = TSLAB__WATCH__INIT;
        unsigned n;

        request.id = 2;
        request.body_case = TSLAB__REQUEST__BODY_WATCH;
        request.watch = &watch;
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
        for (unsigned i = 0; i < 3000; i++)
                (void) daemon_advance(control);
        for (n = 0;; n++) {
                ProtoReply *reply = NULL;
                ProtoFds fds;

                wait_readable(fd);
                r = proto_reply_receive(fd, &reply, &fds);
                if (r)
                        break;
                assert_int_equal(reply->id, 2);
                assert_true(reply->more);
                (void) proto_reply_free(reply);
        }
        assert_int_equal(r, PROTO_E_CLOSED);
        assert_in_range(n, 10, 2900);
        close(fd);
        assert_true(daemon_answers(*state));
}

/* Requests that were sent before the peer went are done, and hurt nobody. */
static void test_gone_while_waiting(void **state) {
        _cleanup_(proto_call_freep) ProtoCall *control = NULL;
        RawClient client;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t handle;
        void *object;
        int fd;

        raw_client_open(&client, *state, 0);
        assert_int_equal(shm_object_alloc(&client.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        fd = connect_raw(*state);
        for (uint64_t i = 1; i <= 20; i++) {
                request.id = i;
                body.epoch = shm_epoch_current(&client.arena);
                body.wait_drained = true;
                request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
                request.epoch_close = &body;
                assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
        }
        usleep(150000);
        close(fd);
        assert_true(daemon_answers(*state));
        assert_int_equal(shm_object_free(&client.actor, handle), 0);
        raw_client_close(&client);
        control = daemon_connect(*state, 0);
        WAIT_FOR(daemon_n_clients(control) == 0);
        (void) daemon_advance(control);
}

static int attach_as_parent(const DaemonFixture *daemon, uint64_t argument) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;

        request.id = 7;
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        attach.entry = (uint32_t) argument;
        return proto_request_send((int) (argument >> 32), &request, NULL, 0, NULL);
}

/* A forked child names its parent's entry on a connection of the parent. */
static void test_attach_as_parent(void **state) {
        RawClient parent;
        int fd;

        raw_client_open(&parent, *state, 0);
        fd = connect_raw(*state);
        daemon_child(attach_as_parent, *state, (uint64_t) fd << 32 | (parent.client + 1));
        expect_error(fd, 7, -EUCLEAN);
        assert_int_equal(attach_as_parent(*state, (uint64_t) fd << 32 | (parent.client + 1)), 0);
        expect_error(fd, 7, 0);
        close(fd);
        raw_client_close(&parent);
}

/* An eventfd that is made blocking, filled and emptied by its client. */
static void test_wake_flood(void **state) {
        RawClient client;
        uint64_t value = UINT64_MAX - 1;

        raw_client_open(&client, *state, 0);
        assert_int_equal(fcntl(client.arena.wake_fd, F_SETFL, 0), 0);
        for (unsigned i = 0; i < 2000; i++) {
                assert_int_equal(write(client.arena.wake_fd, &value, 8), 8);
                assert_int_equal(read(client.arena.wake_fd, &(uint64_t){ 0 }, 8), 8);
        }
        assert_int_equal(write(client.arena.wake_fd, &value, 8), 8);
        assert_true(daemon_answers(*state));
        raw_client_close(&client);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_garbage),           cmocka_unit_test(test_no_body),
                cmocka_unit_test(test_oversized),         cmocka_unit_test(test_unknown_type),
                cmocka_unit_test(test_wrong_descriptors), cmocka_unit_test(test_fork_attach_wrong_socket),
                cmocka_unit_test(test_no_hello),          cmocka_unit_test(test_many_connections),
                cmocka_unit_test(test_no_descriptors),    cmocka_unit_test(test_slow_asker),
                cmocka_unit_test(test_slow_watcher),      cmocka_unit_test(test_gone_while_waiting),
                cmocka_unit_test(test_attach_as_parent),  cmocka_unit_test(test_wake_flood),
        };

        (void) signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, setup, teardown);
}
