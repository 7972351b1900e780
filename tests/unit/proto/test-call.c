/*
 * The blocking client against a daemon that the test plays: ids are known, so the test writes the answers to
 * the socket beforehand. Where that cannot be, a child plays the daemon.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "proto/call.h"
#include "proto/deadline.h"

#define SECOND PROTO_USEC_PER_SEC
#define MOMENT (SECOND / 50)

typedef struct Fixture {
        ProtoCall *call;
        int peer;
} Fixture;

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));
        int pair[2];

        assert_non_null(f);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(proto_call_new(&f->call, pair[0]), 0);
        f->peer = pair[1];
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        f->call = proto_call_free(f->call);
        f->peer = proto_close(f->peer);
        free(f);
        return 0;
}

static void answer_trim(int fd, uint64_t id, bool more) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;

        reply.id = id;
        reply.more = more;
        if (more) {
                progress.done = 1;
                progress.total = 2;
                reply.progress = &progress;
        } else {
                reply.body_case = TSLAB__REPLY__BODY_TRIM;
                reply.trim = &trim;
                trim.reclaimed_bytes = id;
        }
        assert_int_equal(proto_reply_send(fd, &reply, NULL, 0), 0);
}

static void answer_error(int fd, uint64_t id, int error) {
        ProtoReply reply = PROTO_REPLY_INIT;

        reply.id = id;
        reply.error = error;
        reply.message = (char *) "ask again";
        assert_int_equal(proto_reply_send(fd, &reply, NULL, 0), 0);
}

static void answer_attach(int fd, uint64_t id) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__AttachReply attach = TSLAB__ATTACH_REPLY__INIT;

        reply.id = id;
        reply.body_case = TSLAB__REPLY__BODY_ATTACH;
        reply.attach = &attach;
        attach.client = 3;
        attach.role = PROTO_ROLE_WRITER;
        assert_int_equal(proto_reply_send(fd, &reply, (int[]){ 0, 1 }, 2), 0);
}

static int call_trim(Fixture *f, uint64_t timeout_usec, ProtoCallMore more, void *userdata,
                     ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &trim;
        return proto_call(f->call, &request, timeout_usec, more, userdata, ret_reply, NULL);
}

static void test_call(void **state) {
        Fixture *f = *state;

        for (uint64_t id = 1; id < 4; ++id) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
                _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
                uint64_t got = 0;

                answer_trim(f->peer, id, false);
                assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), 0);
                assert_int_equal(reply->trim->reclaimed_bytes, id);
                assert_int_equal(proto_request_receive(f->peer, &request, &got, &fds, NULL), 0);
                assert_int_equal(got, id);
        }
}

static void test_call_fds(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;

        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        answer_attach(f->peer, 1);
        assert_int_equal(proto_call(f->call, &request, SECOND, NULL, NULL, &reply, &fds), 0);
        assert_int_equal(reply->attach->client, 3);
        assert_int_equal(fds.n_fds, 2);
}

static int count_more(void *userdata, const ProtoReply *reply) {
        int *n = userdata;

        assert_true(reply->more);
        assert_int_equal(reply->progress->total, 2);
        return ++*n == 3 ? -ECANCELED : 0;
}

static void test_call_more(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        int n = 0;

        answer_trim(f->peer, 1, true);
        answer_trim(f->peer, 1, true);
        answer_trim(f->peer, 1, false);
        assert_int_equal(call_trim(f, SECOND, count_more, &n, &reply), 0);
        assert_int_equal(n, 2);
}

/* Stopped by its callback, then used again: the call skips the rest of the first answer. */
static void test_call_more_stopped(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        int n = 0;

        for (int i = 0; i < 5; ++i)
                answer_trim(f->peer, 1, true);
        answer_trim(f->peer, 1, false);
        assert_int_equal(call_trim(f, SECOND, count_more, &n, &reply), -ECANCELED);
        assert_null(reply);
        answer_trim(f->peer, 2, false);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), 0);
        assert_int_equal(reply->id, 2);
}

static void test_call_refused(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

        answer_error(f->peer, 1, -EBUSY);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EBUSY);
        assert_string_equal(reply->message, "ask again");
}

/*
 * The peer never answers, then late: the call ends in time, and the late answer is not taken for
 * the next one.
 */
static void test_call_deadline(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        uint64_t start = proto_now_usec();

        assert_int_equal(call_trim(f, MOMENT, NULL, NULL, &reply), -ETIMEDOUT);
        assert_true(proto_now_usec() - start >= MOMENT);
        answer_attach(f->peer, 1);
        answer_trim(f->peer, 2, false);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), 0);
        assert_int_equal(reply->id, 2);
}

/* A process that may have no descriptor, as sandboxes make it, cannot wait. */
static void test_call_no_descriptors(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        struct rlimit usual, none;
        int r;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
        none = (struct rlimit){ .rlim_cur = 0, .rlim_max = usual.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        r = call_trim(f, MOMENT, NULL, NULL, &reply);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        assert_int_equal(r, -EMFILE);
}

/* The same request goes on to wait: it is sent once. */
static void test_call_again(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_request_freep) ProtoRequest *got = NULL, *second = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        uint64_t id = 0;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &trim;
        assert_int_equal(proto_call(f->call, &request, MOMENT, NULL, NULL, &reply, NULL), -ETIMEDOUT);
        assert_int_equal(proto_call_again(f->call, &request, MOMENT, NULL, NULL, &reply, NULL), -ETIMEDOUT);
        answer_trim(f->peer, 1, false);
        assert_int_equal(proto_call_again(f->call, &request, SECOND, NULL, NULL, &reply, NULL), 0);
        assert_int_equal(reply->id, 1);
        assert_int_equal(proto_request_receive(f->peer, &got, &id, &fds, NULL), 0);
        assert_int_equal(proto_request_receive(f->peer, &second, &id, &fds, NULL), PROTO_E_AGAIN);
}

/* Nor may a peer that always has something to say hold us for ever. */
static int answer_again(void *userdata, const ProtoReply *reply) {
        Fixture *f = userdata;

        answer_trim(f->peer, reply->id, true);
        return 0;
}

static void test_call_deadline_of_stream(void **state) {
        Fixture *f = *state;
        ProtoReply *reply = NULL;

        answer_trim(f->peer, 1, true);
        assert_int_equal(call_trim(f, MOMENT, answer_again, f, &reply), -ETIMEDOUT);
}

static void test_call_slow_peer(void **state) {
        static uint8_t junk[PROTO_MESSAGE_MAX];
        Fixture *f = *state;
        ProtoReply *reply = NULL;

        /* a peer that does not read: no room for the request */
        while (proto_send(proto_call_fd(f->call), junk, sizeof(junk), NULL, 0, NULL) == 0)
                ;
        assert_int_equal(call_trim(f, MOMENT, NULL, NULL, &reply), -ETIMEDOUT);
}

static void test_call_hangup(void **state) {
        Fixture *f = *state;
        ProtoReply *reply = NULL;
        int n = 0;

        /* in the middle of an answer */
        answer_trim(f->peer, 1, true);
        assert_int_equal(shutdown(f->peer, SHUT_WR), 0);
        assert_int_equal(call_trim(f, SECOND, count_more, &n, &reply), PROTO_E_CLOSED);
        assert_int_equal(n, 1);
        assert_int_equal(proto_call_fd(f->call), -1);
        assert_int_equal(call_trim(f, SECOND, count_more, &n, &reply), PROTO_E_CLOSED);
}

static void test_call_hangup_before(void **state) {
        Fixture *f = *state;
        ProtoReply *reply = NULL;

        f->peer = proto_close(f->peer);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), PROTO_E_CLOSED);
}

static void check_eproto(Fixture *f) {
        ProtoReply *reply = NULL;

        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), -EPROTO);
        assert_null(reply);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), PROTO_E_CLOSED);
}

static void test_call_garbage(void **state) {
        Fixture *f = *state;

        assert_int_equal(proto_send(f->peer, "garbage", 7, (int[]){ 0 }, 1, NULL), 0);
        check_eproto(f);
}

static void test_call_wrong_body(void **state) {
        Fixture *f = *state;

        answer_attach(f->peer, 1);
        check_eproto(f);
}

static void test_call_future_id(void **state) {
        Fixture *f = *state;

        answer_trim(f->peer, 2, false);
        check_eproto(f);
}

static void test_call_invalid_request(void **state) {
        Fixture *f = *state;
        ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve reserve = TSLAB__EPOCH_RESERVE__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &reserve;
        reserve.label = (char *) "a label that is longer than what is allowed";
        assert_int_equal(proto_call(f->call, &request, SECOND, NULL, NULL, &reply, NULL), -EINVAL);
        answer_trim(f->peer, 2, false);
        assert_int_equal(call_trim(f, SECOND, NULL, NULL, &reply), 0);
        reply = proto_reply_free(reply);
}

static void on_alarm(int number) {
        (void) number;
}

static void test_call_interrupted(void **state) {
        Fixture *f = *state;
        const struct itimerval often = { .it_interval.tv_usec = 1000, .it_value.tv_usec = 1000 }, never = {};
        struct sigaction action = { .sa_handler = on_alarm }, previous;
        ProtoReply *reply = NULL;
        uint64_t start = proto_now_usec();

        assert_int_equal(sigaction(SIGALRM, &action, &previous), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        assert_int_equal(call_trim(f, MOMENT, NULL, NULL, &reply), -ETIMEDOUT);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &previous, NULL), 0);
        assert_true(proto_now_usec() - start >= MOMENT);
}

/*
 * Plays a daemon for one connection in a child: one request, one reply to it. 0: hello of this
 * version; or an errno.
 */
static pid_t play_daemon(int listener, uint32_t version, int error) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                ProtoRequest *request = NULL;
                ProtoReply reply = PROTO_REPLY_INIT;
                Tslab__HelloReply hello = TSLAB__HELLO_REPLY__INIT;
                ProtoFds fds = PROTO_FDS_INIT;
                uint64_t id = 0;

                alarm(60);
                while (proto_request_receive(fd, &request, &id, &fds, NULL) == PROTO_E_AGAIN)
                        ;
                reply.id = id;
                reply.error = error;
                if (error == 0) {
                        reply.body_case = TSLAB__REPLY__BODY_HELLO;
                        reply.hello = &hello;
                        hello.protocol_version = version;
                        hello.arena_id.data = (uint8_t *) "0123456789abcdef";
                        hello.arena_id.len = 16;
                        hello.pool = request->hello->comm;
                        hello.role = PROTO_ROLE_READER;
                }
                _exit(proto_reply_send(fd, &reply, NULL, 0) ? 1 : 0);
        }
        return pid;
}

static int open_played(uint32_t version, int error, ProtoCall **ret_call, ProtoReply **ret_reply) {
        char dir[] = "/tmp/tslab-test-XXXXXX";
        _cleanup_(proto_closep) int listener = -1;
        _cleanup_(proto_freep) char *path = NULL;
        ProtoHello hello = PROTO_HELLO_INIT;
        int r, status;
        pid_t pid;

        assert_non_null(mkdtemp(dir));
        assert_true(asprintf(&path, "%s/a.sock", dir) > 0);
        assert_int_equal(proto_listen(path, 0600, &listener), 0);
        pid = play_daemon(listener, version, error);
        hello.software = (char *) "test 1";
        hello.comm = (char *) "test";
        r = proto_call_open(ret_call, path, &hello, 10 * SECOND, ret_reply);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(dir), 0);
        return r;
}

static void test_open(void **state) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

        assert_int_equal(open_played(PROTO_VERSION, 0, &call, &reply), 0);
        assert_string_equal(reply->hello->pool, "test");
        assert_true(proto_call_fd(call) >= 0);
}

static void test_open_refused(void **state) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoCall *call = NULL;

        assert_int_equal(open_played(0, -EACCES, &call, &reply), PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EACCES);
        assert_null(call);
}

static void test_open_other_version(void **state) {
        ProtoReply *reply = NULL;
        ProtoCall *call = NULL;

        assert_int_equal(open_played(PROTO_VERSION + 1, 0, &call, &reply), -EPROTONOSUPPORT);
        assert_null(call);
        assert_null(reply);
}

static void test_open_nobody(void **state) {
        ProtoHello hello = PROTO_HELLO_INIT;
        ProtoReply *reply = NULL;
        ProtoCall *call = NULL;

        assert_int_equal(proto_call_open(&call, "/tmp/no/such/socket", &hello, SECOND, &reply), -ENOENT);
}

/* A real child: its credentials come with the request, and the descriptor is a connection to it. */
static void test_fork_attach(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL, *next = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT, none = PROTO_FDS_INIT;
        struct ucred credentials;
        uint64_t id;
        int status;
        pid_t pid;

        assert_int_equal(proto_socket_adopt(f->peer, false), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                ProtoCall *call = NULL;
                Fixture child = {};
                ProtoReply *reply = NULL;

                alarm(60);
                if (proto_call_fork_attach(&call, proto_call_fd(f->call), "child", SECOND))
                        _exit(1);
                child.call = call;
                /* nobody answers */
                _exit(call_trim(&child, MOMENT, NULL, NULL, &reply) == -ETIMEDOUT ? 0 : 2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);

        assert_int_equal(proto_request_receive(f->peer, &request, &id, &fds, &credentials), 0);
        assert_int_equal(request->body_case, TSLAB__REQUEST__BODY_FORK_ATTACH);
        assert_string_equal(request->fork_attach->comm, "child");
        assert_int_equal(credentials.pid, pid);
        assert_int_equal(proto_socket_adopt(fds.fds[0], false), 0);
        assert_int_equal(proto_request_receive(fds.fds[0], &next, &id, &none, NULL), 0);
        assert_int_equal(next->body_case, TSLAB__REQUEST__BODY_TRIM);
}

#define TEST(_f) cmocka_unit_test_setup_teardown(_f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_call),
                TEST(test_call_fds),
                TEST(test_call_more),
                TEST(test_call_more_stopped),
                TEST(test_call_refused),
                TEST(test_call_deadline),
                TEST(test_call_no_descriptors),
                TEST(test_call_again),
                TEST(test_call_deadline_of_stream),
                TEST(test_call_slow_peer),
                TEST(test_call_hangup),
                TEST(test_call_hangup_before),
                TEST(test_call_garbage),
                TEST(test_call_wrong_body),
                TEST(test_call_future_id),
                TEST(test_call_invalid_request),
                TEST(test_call_interrupted),
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_open_refused),
                cmocka_unit_test(test_open_other_version),
                cmocka_unit_test(test_open_nobody),
                TEST(test_fork_attach),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
