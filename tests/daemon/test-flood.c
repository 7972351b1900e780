/*
 * Peers that take all they can get: connections, descriptors, bytes that nobody reads. The daemon's memory
 * and descriptors for them stay bounded, and a client that behaves is served meanwhile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/epoch/epoch.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_CONNECTIONS 2500U
#define N_KEPT_MAX 1088U /* connections that the daemon keeps at most */
#define FDS_MAX (N_KEPT_MAX + 64U)
#define RSS_GROWTH_MAX (96UL << 10) /* KiB */
#define N_SLOW 100U
#define N_VISITS 1000U
#define LOG_LINES_MAX 500U /* in LOG_WINDOW_USEC */
#define LOG_WINDOW_USEC UINT64_C(10000000)
#define N_ATTACHED 10U
#define FDS_SENT 250 /* with one message: about as many as the kernel takes */

static DaemonFixture fixture;
static int fds[N_CONNECTIONS];
static unsigned n_fds;

static unsigned count_descriptors(void) {
        char path[64];
        unsigned n = 0;
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) fixture.pid);
        dir = opendir(path);
        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* KiB. A sanitizer keeps freed memory for a while. */
static unsigned long resident(void) {
#ifdef __SANITIZE_ADDRESS__
        return 0;
#else
        unsigned long n = 0;
        char path[64], line[128];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int) fixture.pid);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) && sscanf(line, "RssAnon: %lu", &n) != 1)
                ;
        fclose(file);
        assert_true(n > 0);
        return n;
#endif
}

/* Each call of it has ten seconds. */
static void behave(void) {
        RawClient client;
        ProtoReply *reply;
        uint64_t handle;
        uint32_t epoch;

        raw_client_open(&client, &fixture, 0);
        assert_int_equal(shm_object_alloc(&client.actor, 100, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
        epoch = shm_epoch_current(&client.arena);
        (void) daemon_advance(client.call);
        reply = daemon_close(client.call, epoch);
        (void) proto_reply_free(reply);
        assert_int_equal(shm_object_free(&client.actor, handle), 0);
        raw_client_close(&client);
}

static void drop_all(void) {
        while (n_fds > 0)
                close(fds[--n_fds]);
}

static int connect_silently(void) {
        int fd = -1;

        assert_int_equal(proto_connect(fixture.socket, DAEMON_TIMEOUT_USEC, &fd), 0);
        return fd;
}

/* A connection on which hello was said. */
static int connect_raw(bool attaches) {
        ProtoCall *call = daemon_connect(&fixture, 0);
        int fd = dup(proto_call_fd(call));

        assert_true(fd >= 0);
        if (attaches)
                daemon_attach(call);
        (void) proto_call_free(call);
        return fd;
}

static void ask_stats(int fd, uint64_t id, int *ret) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        request.id = id;
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        *ret = proto_request_send(fd, &request, NULL, 0, NULL);
}

/* Afterwards there is as much as before. */
static void expect_descriptors(unsigned n) {
        WAIT_FOR(count_descriptors() <= n);
}

static void test_half_open(void **state) {
        unsigned before = count_descriptors();
        unsigned long size = resident();

        (void) state;
        for (; n_fds < N_CONNECTIONS; n_fds++) {
                fds[n_fds] = connect_silently();
                if (n_fds % 500 == 499)
                        behave();
                assert_true(n_fds % 100 != 0 || count_descriptors() <= FDS_MAX);
        }
        behave();
        assert_true(count_descriptors() <= FDS_MAX);
        assert_true(resident() <= size + RSS_GROWTH_MAX);
        drop_all();
        expect_descriptors(before);
}

static void test_idle(void **state) {
        unsigned before = count_descriptors();

        (void) state;
        for (; n_fds < N_CONNECTIONS; n_fds++)
                fds[n_fds] = connect_raw(false);
        behave();
        assert_true(count_descriptors() <= FDS_MAX);
        drop_all();
        expect_descriptors(before);
}

/* A client that watches, or has attached, keeps its connection however many others come. */
static void test_others_stay(void **state) {
        unsigned before = count_descriptors();
        RawClient client;

        (void) state;
        raw_client_open(&client, &fixture, 0);
        for (; n_fds < N_CONNECTIONS; n_fds++)
                fds[n_fds] = n_fds % 2 ? connect_raw(false) : connect_silently();
        (void) daemon_advance(client.call);
        drop_all();
        raw_client_close(&client);
        expect_descriptors(before);
}

/* Sockets with other ends that stay silent, and some with an other end that is gone before. */
static void test_half_fork_attach(void **state) {
        unsigned before = count_descriptors();
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__ForkAttach fork_attach = TSLAB__FORK_ATTACH__INIT;
        RawClient parent;
        int pair[2], r;

        (void) state;
        raw_client_open(&parent, &fixture, 0);
        request.body_case = TSLAB__REQUEST__BODY_FORK_ATTACH;
        request.fork_attach = &fork_attach;
        for (; n_fds < N_CONNECTIONS; n_fds++) {
                assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                                 0);
                request.id = n_fds + 1;
                WAIT_FOR((r = proto_request_send(proto_call_fd(parent.call), &request, &pair[1], 1, NULL)) !=
                         PROTO_E_AGAIN);
                assert_int_equal(r, 0);
                close(pair[1]);
                fds[n_fds] = pair[0];
                if (n_fds % 3 == 0) {
                        close(pair[0]);
                        fds[n_fds] = dup(STDERR_FILENO);
                }
        }
        behave();
        assert_true(count_descriptors() <= FDS_MAX);
        drop_all();
        raw_client_close(&parent);
        expect_descriptors(before);
}

/* With one message, as many as the kernel takes: of a connection that has not attached, none since Linux 6.16. */
static void send_descriptors(int fd, int n) {
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(FDS_SENT * sizeof(int))];
        } control = {};
        uint8_t data[64];
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        struct iovec iov = { .iov_base = data };
        struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        iov.iov_len = tslab__request__pack(&request, data);
        message.msg_controllen = CMSG_SPACE((size_t) n * sizeof(int));
        control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN((size_t) n * sizeof(int)),
                                           .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS };
        for (int i = 0; i < n; i++)
                memcpy(CMSG_DATA(&control.header) + (size_t) i * sizeof(int), &fd, sizeof(int));
        assert_true(sendmsg(fd, &message, MSG_NOSIGNAL) > 0 || errno == EPERM);
}

static void test_descriptors(void **state) {
        static const int counts[] = { 1, 2, 3, 17, FDS_SENT };
        unsigned before = count_descriptors();

        (void) state;
        for (unsigned i = 0; i < 400; i++) {
                int fd = i < N_ATTACHED ? connect_raw(true) : i % 2 ? connect_raw(false) : connect_silently();

                send_descriptors(fd, counts[i % 5]);
                assert_true(i % 50 != 0 || count_descriptors() <= FDS_MAX);
                close(fd);
        }
        behave();
        expect_descriptors(before + 2 * N_ATTACHED); /* a client stays one after a bad message */
}

/* Largest messages of nothing, and every beginning of one that is good. */
static void test_messages(void **state) {
        static uint8_t data[PROTO_MESSAGE_MAX];
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochLabel label = TSLAB__EPOCH_LABEL__INIT;
        unsigned before = count_descriptors();
        unsigned long memory = resident();
        size_t size;

        (void) state;
        for (unsigned i = 0; i < 500; i++) {
                int fd = i % 2 ? connect_raw(false) : connect_silently();

                memset(data, (int) (i % 256), sizeof(data));
                (void) send(fd, data, sizeof(data) - i % 3, MSG_NOSIGNAL);
                close(fd);
        }
        request.id = 5;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_LABEL;
        label.label = (char *) "a label that is of some length";
        request.epoch_label = &label;
        size = tslab__request__pack(&request, data);
        for (size_t n = 1; n < size; n++) {
                int fd = connect_raw(false);

                (void) send(fd, data, n, MSG_NOSIGNAL);
                close(fd);
        }
        behave();
        assert_true(resident() <= memory + RSS_GROWTH_MAX);
        expect_descriptors(before);
}

/* Many clients that ask, all at once, and never read. */
static void test_slow_readers(void **state) {
        unsigned before = count_descriptors();
        unsigned long memory = resident();
        unsigned n_full = 0;
        int r;

        (void) state;
        for (; n_fds < N_SLOW; n_fds++)
                fds[n_fds] = connect_raw(false);
        for (unsigned round = 0; n_full < N_SLOW * 3; round++) {
                assert_true(round < 100000);
                ask_stats(fds[round % N_SLOW], round + 1, &r);
                n_full += r != 0;
        }
        behave();
        assert_true(resident() <= memory + RSS_GROWTH_MAX);
        drop_all();
        expect_descriptors(before);
}

static unsigned count_lines(int log_fd, const char *text) {
        unsigned n = 0;
        char line[512];
        FILE *file;

        assert_int_equal(lseek(log_fd, 0, SEEK_SET), 0);
        file = fdopen(dup(log_fd), "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file))
                n += strstr(line, text) != NULL;
        fclose(file);
        return n;
}

/* A client that comes and goes without end does not fill the log. */
static void test_log_lines(void **state) {
        uint64_t began = proto_now_usec(), n_windows;
        DaemonFixture daemon;
        RawClient client;
        int log_fd;

        (void) state;
        log_fd = daemon_start_logged(&daemon, (const char *[]){ "--size=1M", "--log-level=info", NULL });
        for (unsigned i = 0; i < N_VISITS; i++) {
                raw_client_open(&client, &daemon, PROTO_ROLE_READER);
                raw_client_close(&client);
        }
        n_windows = 2 + (proto_now_usec() - began) / LOG_WINDOW_USEC;
        assert_true(count_lines(log_fd, "client ") > 0);
        assert_true(count_lines(log_fd, "client ") <= n_windows * LOG_LINES_MAX);
        assert_true(count_lines(log_fd, "too many log lines about clients") > 0);
        daemon_stop(&daemon);
        close(log_fd);
}

/* Attaches as a reader, and does not read the reply. False: the daemon refused the connection. */
static bool attach_unread(uint32_t entry) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoHello hello = PROTO_HELLO_INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        struct pollfd p = { .events = POLLIN };
        int n = 0;

        hello.software = hello.comm = (char *) "flood";
        hello.want_role = PROTO_ROLE_READER;
        if (proto_call_open(&call, fixture.socket, &hello, DAEMON_TIMEOUT_USEC, &reply) != 0)
                return false;
        attach.entry = entry;
        request.id = 9;
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        assert_int_equal(proto_request_send(proto_call_fd(call), &request, NULL, 0, NULL), 0);
        p.fd = dup(proto_call_fd(call));
        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(ioctl(p.fd, FIONREAD, &n), 0);
        fds[n_fds++] = p.fd;
        return n > 0;
}

/*
 * Replies that are not read keep descriptors in flight, and the kernel limits those of the daemon's user: they count,
 * although the daemon drops the connections.
 */
static void test_unread_descriptors(void **state) {
        unsigned before = count_descriptors();
        RawClient client;
        uint32_t entry;

        (void) state;
        raw_client_open(&client, &fixture, PROTO_ROLE_READER);
        entry = client.client + 1;
        while (n_fds < N_CONNECTIONS && attach_unread(entry))
                (void) send(fds[n_fds - 1], "nonsense", 8, MSG_NOSIGNAL);
        assert_in_range(n_fds, 900, N_KEPT_MAX);
        drop_all();
        raw_client_close(&client);
        expect_descriptors(before + 1); /* its last connection did not hang up: it may still be a client */
        WAIT_FOR(daemon_answers(&fixture));
        behave();
}

static int setup(void **state) {
        struct rlimit limit;

        (void) state;
        (void) signal(SIGPIPE, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (limit.rlim_max < N_CONNECTIONS + 100)
                return -1;
        daemon_start(&fixture,
                     (const char *[]){ "--size=16M", "--epochs=4", "--threads=64", "--log-level=err", NULL });
        return 0;
}

static int teardown(void **state) {
        (void) state;
        drop_all();
        daemon_stop(&fixture);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_half_open),          cmocka_unit_test(test_idle),
                cmocka_unit_test(test_others_stay),        cmocka_unit_test(test_half_fork_attach),
                cmocka_unit_test(test_descriptors),        cmocka_unit_test(test_messages),
                cmocka_unit_test(test_slow_readers),       cmocka_unit_test(test_log_lines),
                cmocka_unit_test(test_unread_descriptors),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
