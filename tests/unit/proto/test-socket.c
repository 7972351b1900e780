/*
 * Datagrams with descriptors over real sockets, and where sockets are. No descriptor may leak: each
 * test counts.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "proto/message.h"
#include "proto/path.h"
#include "proto/state-file.h"
#include "tests/util/process.h"

#define LINGERING_MAX 20U
#define N_TOO_MANY 16

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76 /* since Linux 6.5 */
#endif

typedef struct Fixture {
        int a, b;
        size_t n_open;
        char dir[32];
} Fixture;

static size_t count_open(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                ++n;
        (void) closedir(dir);
        return n;
}

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));
        int pair[2];

        assert_non_null(f);
        strcpy(f->dir, "/tmp/tslab-test-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        f->a = pair[0];
        f->b = pair[1];
        f->n_open = count_open();
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;
        size_t n = count_open();
        int r = n == f->n_open - (f->a < 0) - (f->b < 0) ? 0 : -1;

        (void) proto_close(f->a);
        (void) proto_close(f->b);
        (void) rmdir(f->dir);
        free(f);
        return r;
}

/* A dishonest peer sends any number of descriptors. */
static void send_raw(int fd, const void *data, size_t size, size_t n_fds) {
        union {
                struct cmsghdr align;
                char data[CMSG_SPACE(N_TOO_MANY * sizeof(int))];
        } control = {};
        struct iovec vector = { .iov_base = (void *) data, .iov_len = size };
        struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };

        if (n_fds > 0) {
                header.msg_control = control.data;
                header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                control.align.cmsg_level = SOL_SOCKET;
                control.align.cmsg_type = SCM_RIGHTS;
                control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                for (size_t i = 0; i < n_fds; ++i)
                        memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &(int){ 2 }, sizeof(int));
        }
        assert_int_equal(sendmsg(fd, &header, MSG_NOSIGNAL), size);
}

static int receive(int fd, size_t *ret_n_fds) {
        static char buffer[PROTO_MESSAGE_MAX];
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        size_t size;
        int r;

        r = proto_receive(fd, buffer, sizeof(buffer), &size, &fds, NULL);
        *ret_n_fds = fds.n_fds;
        return r;
}

static void test_send_receive(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_closep) int taken = -1;
        char buffer[16];
        size_t size;

        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), PROTO_E_AGAIN);
        assert_int_equal(proto_send(f->a, "hello", 5, (int[]){ 0, 1 }, 2, NULL), 0);
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), 0);
        assert_int_equal(size, 5);
        assert_memory_equal(buffer, "hello", 5);
        assert_int_equal(fds.n_fds, 2);
        for (size_t i = 0; i < 2; ++i)
                assert_true(fcntl(fds.fds[i], F_GETFD) & FD_CLOEXEC);

        taken = proto_fds_take(&fds, 0);
        assert_true(taken >= 0);
        assert_int_equal(proto_fds_take(&fds, 0), -1);
        assert_int_equal(proto_fds_take(&fds, 2), -1);
}

static void test_receive_closed(void **state) {
        Fixture *f = *state;
        size_t n;

        assert_int_equal(proto_send(f->a, "x", 1, NULL, 0, NULL), 0);
        f->a = proto_close(f->a);
        assert_int_equal(receive(f->b, &n), 0);
        assert_int_equal(receive(f->b, &n), PROTO_E_CLOSED);
        assert_int_equal(proto_send(f->b, "x", 1, NULL, 0, NULL), PROTO_E_CLOSED);
}

static void test_receive_reset(void **state) {
        Fixture *f = *state;
        size_t n;

        /* hung up with unread data */
        assert_int_equal(proto_send(f->b, "x", 1, NULL, 0, NULL), 0);
        f->a = proto_close(f->a);
        assert_int_equal(receive(f->b, &n), PROTO_E_CLOSED);
}

static void test_receive_empty(void **state) {
        Fixture *f = *state;
        size_t n;

        send_raw(f->a, "", 0, 2);
        assert_int_equal(receive(f->b, &n), PROTO_E_CLOSED);
        assert_int_equal(n, 0);
}

static void test_receive_oversized(void **state) {
        static char big[PROTO_MESSAGE_MAX + 1];
        Fixture *f = *state;
        size_t n;

        assert_int_equal(proto_send(f->a, big, sizeof(big), NULL, 0, NULL), PROTO_E_OVERSIZED);
        send_raw(f->a, big, sizeof(big), 1);
        assert_int_equal(receive(f->b, &n), PROTO_E_OVERSIZED);
        send_raw(f->a, big, PROTO_MESSAGE_MAX, 1);
        assert_int_equal(receive(f->b, &n), 0);
        assert_int_equal(n, 1);
}

/* With and without credentials before them in the same buffer. */
static void test_receive_too_many_fds(void **state) {
        Fixture *f = *state;
        size_t n;

        for (int adopted = 0; adopted < 2; ++adopted) {
                for (size_t i = PROTO_FDS_MAX + 1; i <= N_TOO_MANY; ++i) {
                        send_raw(f->a, "x", 1, i);
                        assert_int_equal(receive(f->b, &n), PROTO_E_BAD_FDS);
                        assert_int_equal(n, 0);
                }
                assert_int_equal(proto_socket_adopt(f->b, false), 0);
        }
}

/* The datagram is gone, none of its descriptors stays open, and the connection works. */
static void test_receive_emfile(void **state) {
        Fixture *f = *state;
        struct rlimit limit, short_limit;
        size_t n;
        int r;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        short_limit = limit;
        short_limit.rlim_cur = (rlim_t) dup(2) + 1; /* for one of the two */
        assert_int_equal(proto_close((int) short_limit.rlim_cur - 1), -1);
        send_raw(f->a, "x", 1, 2);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &short_limit), 0);
        r = receive(f->b, &n);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(r, -EMFILE);
        assert_int_equal(n, 0);
        send_raw(f->a, "x", 1, 2);
        assert_int_equal(receive(f->b, &n), 0);
}

static int receive_without_streams(void *userdata) {
        ProtoFds fds = PROTO_FDS_INIT;
        const Fixture *f = userdata;
        char buffer[16];
        size_t n;

        for (int fd = 0; fd < 3; ++fd)
                (void) close(fd);
        CHECK(proto_receive(f->b, buffer, sizeof(buffer), &n, &fds, NULL) == 0);
        CHECK(fds.n_fds == 2 && fds.fds[0] > STDERR_FILENO && fds.fds[1] > STDERR_FILENO);
        return 0;
}

/* A program without standard streams does not print into descriptors that came. */
static void test_receive_above_streams(void **state) {
        Fixture *f = *state;

        send_raw(f->a, "x", 1, 2);
        assert_int_equal(test_child_run(TEST_FORK, receive_without_streams, f), 0);
}

static void test_send_full(void **state) {
        static char big[PROTO_MESSAGE_MAX];
        Fixture *f = *state;
        size_t n, n_sent = 0;
        int r;

        while (!(r = proto_send(f->a, big, sizeof(big), NULL, 0, NULL)))
                ++n_sent;
        assert_int_equal(r, PROTO_E_AGAIN);
        assert_true(n_sent > 0);
        while (n_sent-- > 0)
                assert_int_equal(receive(f->b, &n), 0);
        assert_int_equal(receive(f->b, &n), PROTO_E_AGAIN);
}

static void test_credentials(void **state) {
        Fixture *f = *state;
        const struct ucred mine = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        struct ucred got;
        char buffer[16];
        size_t size;

        /* none before we ask for them */
        assert_int_equal(proto_send(f->a, "x", 1, NULL, 0, NULL), 0);
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, &got), 0);
        assert_int_equal(got.pid, 0);

        assert_int_equal(proto_socket_adopt(f->b, false), 0);
        for (int i = 0; i < 2; ++i) {
                assert_int_equal(proto_send(f->a, "x", 1, (int[]){ 0 }, 1, i ? &mine : NULL), 0);
                assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, &got), 0);
                assert_int_equal(got.pid, getpid());
                assert_int_equal(got.uid, geteuid());
                assert_int_equal(fds.n_fds, 1);
                proto_fds_deinit(&fds);
        }

        assert_int_equal(proto_peer_credentials(f->b, &got), 0);
        assert_int_equal(got.pid, getpid());
}

/* The kernel adds a pidfd to each message if the peer, which may have the same socket, asked for it. */
static void test_receive_closes_pidfd(void **state) {
        Fixture *f = *state;
        const int one = 1;
        size_t n;

        if (setsockopt(f->b, SOL_SOCKET, SO_PASSPIDFD, &one, sizeof(one)) < 0)
                skip();
        for (int adopted = 0; adopted < 2; ++adopted) {
                for (size_t n_fds = 0; n_fds <= N_TOO_MANY; ++n_fds) {
                        send_raw(f->a, "x", 1, n_fds);
                        (void) receive(f->b, &n);
                        assert_int_equal(count_open(), f->n_open);
                }
                assert_int_equal(proto_socket_adopt(f->b, false), 0);
        }
}

static void test_request_receive_closes_fds(void **state) {
        static const uint8_t trim[] = { 0x08, 0x07, 0x92, 0x02, 0x00 };
        static const uint8_t unknown[] = { 0x08, 0x07, 0xf2, 0x07, 0x00 };
        Fixture *f = *state;
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        ProtoFds fds = PROTO_FDS_INIT;
        uint64_t id = 0;

        send_raw(f->a, trim, sizeof(trim), 1);
        assert_int_equal(proto_request_receive(f->b, &request, &id, &fds, NULL), PROTO_E_BAD_FDS);
        assert_int_equal(id, 7);
        send_raw(f->a, unknown, sizeof(unknown), 2);
        assert_int_equal(proto_request_receive(f->b, &request, &id, &fds, NULL), PROTO_E_UNKNOWN);
        assert_int_equal(id, 7);
        send_raw(f->a, "garbage", 7, 2);
        assert_int_equal(proto_request_receive(f->b, &request, &id, &fds, NULL), PROTO_E_MALFORMED);
        assert_int_equal(id, 0);
        assert_null(request);
        assert_int_equal(fds.n_fds, 0);
}

static int listen_inet(void) {
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(bind(fd, (const struct sockaddr *) &address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 128), 0);
        return fd;
}

/*
 * close() of such a socket, with data that nobody reads, waits: here at most 20 s, on a hostile peer's choice for
 * ever.
 */
static void send_lingering(int fd, int listener, size_t n) {
        const struct linger linger = { .l_onoff = 1, .l_linger = 20 };
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);
        int sent[LINGERING_MAX];
        union {
                struct cmsghdr header;
                char data[CMSG_SPACE(sizeof(sent))];
        } control = {};
        struct iovec vector = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
        struct msghdr header = {
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control.data,
                .msg_controllen = CMSG_SPACE(n * sizeof(int)),
        };

        assert_int_equal(getsockname(listener, (struct sockaddr *) &address, &size), 0);
        for (size_t i = 0; i < n; ++i) {
                sent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                assert_int_equal(connect(sent[i], (struct sockaddr *) &address, size), 0);
                assert_int_equal(setsockopt(sent[i], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
                while (send(sent[i], (char[4096]){ 0 }, 4096, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                        ;
        }
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS,
                                           .cmsg_len = CMSG_LEN(n * sizeof(int)) };
        memcpy(CMSG_DATA(&control.header), sent, n * sizeof(int));
        assert_int_equal(sendmsg(fd, &header, 0), 1);
        for (size_t i = 0; i < n; ++i)
                close(sent[i]);
}

static void test_received_linger(void **state) {
        _cleanup_(proto_closep) int listener = listen_inet();
        Fixture *f = *state;

        for (size_t n = 1; n <= LINGERING_MAX; n += 3) {
                ProtoFds fds = PROTO_FDS_INIT;
                char buffer[16];
                size_t size;
                int r;

                send_lingering(f->a, listener, n);
                alarm(60);
                r = proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL);
                assert_int_equal(r, n > PROTO_FDS_MAX ? PROTO_E_BAD_FDS : 0);
                proto_fds_deinit(&fds);
                alarm(0);
        }
}

/* Messages that were never received: empty ones, too, are no end of the connection. */
static void test_unread_linger(void **state) {
        _cleanup_(proto_closep) int listener = listen_inet();
        Fixture *f = *state;

        assert_int_equal(proto_socket_adopt(f->b, false), 0);
        assert_int_equal(send(f->a, "", 0, 0), 0);
        send_lingering(f->a, listener, 1);
        send_lingering(f->a, listener, LINGERING_MAX);
        alarm(60);
        f->b = proto_socket_close(f->b);
        alarm(0);
        assert_int_equal(f->b, -1);
}

static bool test_closer_room;

static bool test_closer_has_room(void) {
        return test_closer_room;
}

static void test_closer_close(int fd) {
        close(fd);
}

/* Messages without descriptors are received, and the others stay where they are. */
static void test_receive_no_room(void **state) {
        static const ProtoCloser closer = { .close = test_closer_close, .has_room = test_closer_has_room };
        _cleanup_(proto_closep) int listener = listen_inet();
        ProtoFds fds = PROTO_FDS_INIT;
        Fixture *f = *state;
        char buffer[16];
        size_t size;

        assert_int_equal(proto_socket_adopt(f->b, false), 0);
        assert_int_equal(send(f->a, "y", 1, 0), 1);
        send_lingering(f->a, listener, 1);
        alarm(60);
        test_closer_room = false;
        proto_set_closer(&closer);
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), 0);
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), PROTO_E_NO_ROOM);
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), PROTO_E_NO_ROOM);
        assert_false(proto_socket_drain(f->b));
        test_closer_room = true;
        assert_int_equal(proto_receive(f->b, buffer, sizeof(buffer), &size, &fds, NULL), 0);
        assert_int_equal(fds.n_fds, 1);
        proto_fds_deinit(&fds);
        assert_true(proto_socket_drain(f->b));
        proto_set_closer(NULL);
        alarm(0);
}

static void test_let_fds(void **state) {
        Fixture *f = *state;
        int fd = f->a, value = 0;

        proto_socket_let_fds(f->b, false);
        if (setsockopt(f->b, SOL_SOCKET, 83 /* SO_PASSRIGHTS */, &value, sizeof(value)) < 0)
                skip();
        assert_int_equal(proto_send(f->a, "x", 1, &fd, 1, NULL), -EPERM);
        assert_int_equal(proto_send(f->a, "x", 1, NULL, 0, NULL), 0);
        proto_socket_let_fds(f->b, true);
        assert_int_equal(proto_send(f->a, "x", 1, &fd, 1, NULL), 0);
}

static void test_adopt_refuses(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_closep) int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _cleanup_(proto_closep) int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_(proto_closep) int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_(proto_closep) int alone = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_int_equal(proto_socket_adopt(file, false), -EPROTOTYPE);
        assert_int_equal(proto_socket_adopt(stream, false), -EPROTOTYPE);
        assert_int_equal(proto_socket_adopt(tcp, false), -EPROTOTYPE);
        assert_int_equal(proto_socket_adopt(alone, false), -EPROTOTYPE);
        assert_int_equal(proto_socket_adopt(f->a, true), -EPROTOTYPE);
        assert_int_equal(proto_socket_adopt(f->a, false), 0);
}

static void test_listen_connect(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_closep) int listener = -1, again = -1, client = -1, accepted = -1;
        _cleanup_(proto_freep) char *path = NULL;
        struct ucred got;
        ProtoFds fds = PROTO_FDS_INIT;
        struct stat st;
        char buffer[16];
        size_t size;

        assert_true(asprintf(&path, "%s/a.sock", f->dir) > 0);
        assert_int_equal(proto_connect(path, 0, &client), -ENOENT);
        assert_int_equal(proto_listen(path, 0660, &listener), 0);
        assert_int_equal(proto_socket_adopt(listener, true), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0660);
        assert_int_equal(proto_listen(path, 0660, &again), -EADDRINUSE);

        /* asking who is there was a connection, too */
        accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        accepted = proto_close(accepted);

        assert_int_equal(proto_connect(path, UINT64_MAX, &client), 0);
        accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(accepted >= 0);
        assert_int_equal(proto_send(client, "x", 1, NULL, 0, NULL), 0);
        assert_int_equal(proto_receive(accepted, buffer, sizeof(buffer), &size, &fds, &got), 0);
        assert_int_equal(got.pid, getpid()); /* SO_PASSCRED was inherited */

        /* stale now */
        listener = proto_close(listener);
        assert_int_equal(proto_connect(path, 0, &again), -ECONNREFUSED);
        assert_int_equal(proto_listen(path, 0600, &listener), 0);
        assert_int_equal(unlink(path), 0);
}

static void test_listen_not_a_socket(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_closep) int file = -1, listener = -1;
        _cleanup_(proto_freep) char *path = NULL;

        assert_true(asprintf(&path, "%s/file", f->dir) > 0);
        file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        assert_int_equal(proto_listen(path, 0660, &listener), -EADDRINUSE);
        assert_int_equal(unlink(path), 0);
}

static void test_path_too_long(void **state) {
        char path[109];
        int fd = -1;

        memset(path, 'x', sizeof(path));
        path[0] = '/';
        path[108] = '\0';
        assert_int_equal(proto_listen(path, 0660, &fd), -ENAMETOOLONG);
        assert_int_equal(proto_connect(path, 0, &fd), -ENAMETOOLONG);
        path[107] = '\0';
        assert_int_equal(proto_connect(path, 0, &fd), -ENOENT);
}

/* A daemon that does not accept: its backlog fills, and connecting ends in time. */
static void test_connect_backlog(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_closep) int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        _cleanup_(proto_closep) int first = -1, second = -1, third = -1;
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/a.sock", f->dir);
        assert_int_equal(bind(listener, (struct sockaddr *) &address, sizeof(address)), 0);
        assert_int_equal(listen(listener, 0), 0);
        assert_int_equal(proto_connect(address.sun_path, 0, &first), 0);
        assert_int_equal(proto_connect(address.sun_path, 0, &second), PROTO_E_AGAIN);
        assert_int_equal(proto_connect(address.sun_path, 20000, &second), PROTO_E_AGAIN);
        /* and it is not taken for a stale one */
        assert_int_equal(proto_listen(address.sun_path, 0660, &third), -EADDRINUSE);
        assert_int_equal(unlink(address.sun_path), 0);
}

static void test_pool_names(void **state) {
        assert_true(proto_pool_name_is_valid("default"));
        assert_true(proto_pool_name_is_valid("0_a"));
        assert_true(proto_pool_name_is_valid("abcdefghijklmnopqrstuvwxyz012345"));
        assert_false(proto_pool_name_is_valid("abcdefghijklmnopqrstuvwxyz0123456"));
        assert_false(proto_pool_name_is_valid(""));
        assert_false(proto_pool_name_is_valid(NULL));
        assert_false(proto_pool_name_is_valid("_a"));
        assert_false(proto_pool_name_is_valid("A"));
        assert_false(proto_pool_name_is_valid("a-b"));
        assert_false(proto_pool_name_is_valid(".."));
}

static void check_path(const char *pool, const char *expected) {
        _cleanup_(proto_freep) char *path = NULL;

        assert_int_equal(proto_socket_path(pool, &path), 0);
        assert_string_equal(path, expected);
}

static void test_socket_path(void **state) {
        _cleanup_(proto_freep) char *path = NULL, *dir = NULL;

        assert_int_equal(setenv("TSLAB_RUNTIME_DIR", "/tmp/x", 1), 0);
        assert_int_equal(unsetenv("TSLAB_POOL"), 0);
        check_path(NULL, "/tmp/x/default.sock");
        check_path("a_b", "/tmp/x/a_b.sock");
        check_path("./a-b", "./a-b");
        assert_int_equal(proto_socket_path("a-b", &path), -EINVAL);
        assert_int_equal(proto_socket_path("", &path), -EINVAL);
        assert_null(path);
        assert_int_equal(setenv("TSLAB_POOL", "", 1), 0);
        check_path(NULL, "/tmp/x/default.sock");
        assert_int_equal(setenv("TSLAB_POOL", "web", 1), 0);
        check_path(NULL, "/tmp/x/web.sock");
        assert_int_equal(proto_runtime_dir(&dir), 0);
        assert_string_equal(dir, "/tmp/x");

        /* a relative one is not listened to */
        assert_int_equal(setenv("TSLAB_RUNTIME_DIR", "x", 1), 0);
        assert_int_equal(setenv("XDG_RUNTIME_DIR", "/tmp/xdg", 1), 0);
        check_path("no_such_pool",
                   geteuid() == 0 ? "/run/tslab/no_such_pool.sock" : "/tmp/xdg/tslab/no_such_pool.sock");
        assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
        check_path("no_such_pool", "/run/tslab/no_such_pool.sock");
}

static void check_state_file(const char *dir, const char *expected) {
        _cleanup_(proto_freep) char *path = NULL;

        assert_int_equal(proto_state_file(dir, "a", "lock", &path), 0);
        assert_string_equal(path + strlen(dir), expected);
}

static void test_state_file(void **state) {
        const Fixture *f = *state;
        char lock[40], loop[40], *path = NULL;

        (void) snprintf(lock, sizeof(lock), "%s/lock", f->dir);
        (void) snprintf(loop, sizeof(loop), "%s/loop", f->dir);
        check_state_file(f->dir, "/a.lock");
        assert_int_equal(mkdir(lock, 0700), 0);
        check_state_file(f->dir, "/lock/a.lock");
        assert_int_equal(rmdir(lock), 0);
        assert_int_equal(symlink(f->dir, lock), 0);
        check_state_file(f->dir, "/a.lock");
        assert_int_equal(unlink(lock), 0);
        /* an error says nothing of the directory */
        assert_int_equal(symlink("loop", loop), 0);
        assert_int_equal(proto_state_file(loop, "a", "lock", &path), -ELOOP);
        assert_null(path);
        assert_int_equal(unlink(loop), 0);
}

#define ARENA "0123456789abcdef0123456789abcdef"

/* A part of an id is none: a daemon was killed before it cut the rest of a longer text off, or its disk was full. */
static void test_lock_read(void **state) {
        static const struct {
                const char *text, *pid, *arena;
        } locks[] = {
                { "", "", "" },
                { "12\n", "12", "" },
                { "12\n\n", "12", "" },
                { "12\n" ARENA "\n", "12", ARENA },
                { "12\n" ARENA "\ndef\n", "12", ARENA }, /* over that of process 12345 */
                { "7\n\n45\n\n", "7", "" }, /* over that of process 12345, which had no arena so far */
                { "12\n0123456789abcdef", "12", "" },
                { "12\n" ARENA "0\n", "12", "" },
                { "1234567890123\n" ARENA "\n", "12345678901", ARENA },
        };
        char pid[PROTO_PID_SIZE], arena[PROTO_ARENA_TEXT_SIZE];
        const Fixture *f = *state;
        char path[40];
        int fd;

        (void) snprintf(path, sizeof(path), "%s/a.lock", f->dir);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); ++i) {
                size_t n = strlen(locks[i].text);

                assert_int_equal(ftruncate(fd, 0), 0);
                assert_int_equal(pwrite(fd, locks[i].text, n, 0), n);
                assert_int_equal(proto_lock_read(fd, pid, arena), 0);
                assert_string_equal(pid, locks[i].pid);
                assert_string_equal(arena, locks[i].arena);
        }
        assert_int_equal(proto_close(fd), -1);
        assert_int_equal(unlink(path), 0);
}

#define TEST(_f) cmocka_unit_test_setup_teardown(_f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_send_receive),
                TEST(test_receive_closed),
                TEST(test_receive_reset),
                TEST(test_receive_empty),
                TEST(test_receive_oversized),
                TEST(test_receive_too_many_fds),
                TEST(test_receive_emfile),
                TEST(test_receive_above_streams),
                TEST(test_send_full),
                TEST(test_credentials),
                TEST(test_receive_closes_pidfd),
                TEST(test_request_receive_closes_fds),
                TEST(test_received_linger),
                TEST(test_unread_linger),
                TEST(test_receive_no_room),
                TEST(test_let_fds),
                TEST(test_adopt_refuses),
                TEST(test_listen_connect),
                TEST(test_listen_not_a_socket),
                TEST(test_path_too_long),
                TEST(test_connect_backlog),
                TEST(test_state_file),
                TEST(test_lock_read),
                cmocka_unit_test(test_pool_names),
                cmocka_unit_test(test_socket_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
