/*
 * Descriptors as systemd passes them: from 3 on, named by the environment of one process. Each case is a child of its
 * own, which is that process; it reads the messages to the store from the other end of NOTIFY_SOCKET.
 */
#include "daemon/takeover/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/socket.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define FIRST 3
#define ABOVE 100 /* where descriptors are that are not passed */
#define SOCKET "tslabd@a.socket"

typedef struct Case {
        const char *kinds; /* a letter for each descriptor, see make() */
        const char *names; /* LISTEN_FDNAMES; NULL: there are no names */
        const char *count; /* LISTEN_FDS; NULL: as many as there are kinds */
        bool other_process; /* LISTEN_PID is not ours */
        int r, socket, arena; /* the results; 0 or -1: none */
        const char *removed[5]; /* names that the store is told to forget */
} Case;

static int above(int fd) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);

        close(fd);
        return copy;
}

static int make_socket(int type, bool listens) {
        const struct sockaddr_un any = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, type, 0);

        if (bind(fd, (const struct sockaddr *) &any, sizeof(any.sun_family)) < 0 ||
            (listens && listen(fd, 1) < 0))
                return -1;
        return fd;
}

static int make(char kind) {
        switch (kind) {
        case 'l':
                return make_socket(SOCK_SEQPACKET, true);
        case 'c':
                return make_socket(SOCK_SEQPACKET, false);
        case 's':
                return make_socket(SOCK_STREAM, true);
        case 'd':
                return make_socket(SOCK_DGRAM, false);
        default:
                return memfd_create("arena", 0);
        }
}

/* The other end of NOTIFY_SOCKET. */
static int open_store(void) {
        struct sockaddr_un address = {};
        socklen_t size = sizeof(address);
        int fd = above(make_socket(SOCK_DGRAM, false));

        if (getsockname(fd, (struct sockaddr *) &address, &size) < 0)
                return -1;
        address.sun_path[0] = '@';
        setenv("NOTIFY_SOCKET", address.sun_path, 1);
        return fd;
}

static void set_environment(const Case *c, size_t n) {
        char text[24];

        snprintf(text, sizeof(text), "%d", c->other_process ? (int) getppid() : (int) getpid());
        setenv("LISTEN_PID", text, 1);
        snprintf(text, sizeof(text), "%zu", n);
        setenv("LISTEN_FDS", c->count ?: text, 1);
        if (c->names)
                setenv("LISTEN_FDNAMES", c->names, 1);
        else
                unsetenv("LISTEN_FDNAMES");
}

/* 0: as the letters say, a hyphen for one that is not open. */
static int pass(const Case *c) {
        size_t n = strlen(c->kinds);
        int fds[8];

        for (size_t i = 0; i < n; i++)
                CHECK((fds[i] = above(make(c->kinds[i]))) >= ABOVE);
        for (size_t i = 0; i < n; i++) {
                CHECK(dup2(fds[i], FIRST + (int) i) == FIRST + (int) i);
                close(fds[i]);
                if (c->kinds[i] == '-')
                        close(FIRST + (int) i);
        }
        set_environment(c, n);
        return 0;
}

static int expect_removed(const Case *c, int store) {
        char text[128], wanted[128];
        ssize_t size;

        for (const char *const *name = c->removed; *name; name++) {
                snprintf(wanted, sizeof(wanted), "FDSTOREREMOVE=1\nFDNAME=%s", *name);
                size = recv(store, text, sizeof(text) - 1, MSG_DONTWAIT);
                CHECK(size > 0);
                text[size] = 0;
                CHECK(!strcmp(text, wanted));
        }
        CHECK(recv(store, text, sizeof(text), MSG_DONTWAIT) < 0 && errno == EAGAIN);
        return 0;
}

/* Descriptors that the daemon does not keep are closed, and children do not inherit the kept ones. */
static int expect_descriptors(const Case *c) {
        for (size_t i = 0; i < strlen(c->kinds); i++) {
                int fd = FIRST + (int) i, flags = fcntl(fd, F_GETFD);
                bool is_kept = fd == c->socket || fd == c->arena;

                CHECK(is_kept ? flags == FD_CLOEXEC : flags < 0);
        }
        return 0;
}

static int take_in_child(void *userdata) {
        const Case *c = userdata;
        int store = open_store();
        Passed passed = { .socket = -77, .arena = -78 };

        CHECK(store >= 0);
        CHECK(pass(c) == 0);
        log_set_level(LOG_EMERG);
        CHECK(passed_take(&passed) == c->r);
        CHECK(expect_removed(c, store) == 0);
        if (c->r < 0) {
                CHECK(passed.socket == -77 && passed.arena == -78);
                return 0;
        }
        CHECK(passed.socket == (c->socket ?: -1) && passed.arena == (c->arena ?: -1));
        if (!c->other_process) {
                CHECK(expect_descriptors(c) == 0);
                CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES"));
        }
        passed_deinit(&passed);
        CHECK(passed.socket == -1 && passed.arena == -1);
        CHECK(c->socket == 0 || fcntl(c->socket, F_GETFD) < 0);
        CHECK(c->arena == 0 || fcntl(c->arena, F_GETFD) < 0);
        return 0;
}

/* As a daemon that nobody passed anything. */
static int take_nothing_in_child(void *userdata) {
        Passed passed;

        unsetenv("LISTEN_FDS");
        CHECK(passed_take(&passed) == 0);
        CHECK(passed.socket == -1 && passed.arena == -1);
        return 0;
}

static void expect(Case c) {
        assert_int_equal(test_child_run(TEST_FORK, take_in_child, &c), 0);
}

static void test_take_nothing(void **state) {
        (void) state;
        assert_int_equal(test_child_run(TEST_FORK, take_nothing_in_child, NULL), 0);
        expect((Case){ .kinds = "lm", .names = SOCKET ":arena", .other_process = true });
}

static void test_take_by_name(void **state) {
        (void) state;
        expect((Case){ .kinds = "l", .names = SOCKET, .socket = 3 });
        expect((Case){ .kinds = "m", .names = "arena", .arena = 3 });
        expect((Case){ .kinds = "lm", .names = SOCKET ":arena", .socket = 3, .arena = 4 });
        expect((Case){ .kinds = "ml", .names = "arena:" SOCKET, .socket = 4, .arena = 3 });
        expect((Case){ .kinds = "l", .socket = 3 }); /* a socket has any name */
}

static void test_take_wrong_type(void **state) {
        (void) state;
        expect((Case){ .kinds = "m", .names = "other", .removed = { "other" } });
        expect((Case){ .kinds = "c", .names = SOCKET, .removed = { SOCKET } });
        expect((Case){ .kinds = "s", .names = SOCKET, .removed = { SOCKET } });
        expect((Case){ .kinds = "d", .names = SOCKET, .removed = { SOCKET } });
        expect((Case){ .kinds = "slm", .names = "a:b:arena", .socket = 4, .arena = 5, .removed = { "a" } });
        /* The last daemon ended in the middle of a check of the store. */
        expect((Case){ .kinds = "sml",
                       .names = "probe:arena:" SOCKET,
                       .socket = 5,
                       .arena = 4,
                       .removed = { "probe" } });
}

/* The first of each is taken. */
static void test_take_too_many(void **state) {
        (void) state;
        expect((Case){ .kinds = "ll", .names = "a:b", .socket = 3, .removed = { "b" } });
        expect((Case){ .kinds = "mm", .names = "arena:arena", .arena = 3, .removed = { "arena" } });
        expect((Case){ .kinds = "mlmlm",
                       .names = "arena:a:arena:b:other",
                       .socket = 4,
                       .arena = 3,
                       .removed = { "arena", "b", "other" } });
}

/* An environment that contradicts itself is an error, and nothing is taken. */
static void test_take_bad_environment(void **state) {
        (void) state;
        expect((Case){ .kinds = "l", .names = SOCKET, .count = "one", .r = -EINVAL });
        expect((Case){ .kinds = "l", .names = SOCKET, .count = "-1", .r = -EINVAL });
        expect((Case){ .kinds = "lm", .names = SOCKET, .r = -EINVAL });
        expect((Case){ .kinds = "l-", .names = SOCKET ":arena", .r = -EBADF });
}

/* Each pidfd belongs to one client; the others are closed, and the store forgets them. */
static int take_clients_in_child(void *userdata) {
        const Case *c = userdata;
        int store = open_store();
        Passed passed;

        CHECK(store >= 0);
        CHECK(pass(c) == 0);
        log_set_level(LOG_EMERG);
        CHECK(passed_take(&passed) == 0);
        CHECK(passed.arena == FIRST && passed.n_clients == 2);
        CHECK(passed_take_client(&passed, 0x2b) == -1);
        CHECK(passed_take_client(&passed, 0xfedcba98) == FIRST + 2);
        CHECK(passed_take_client(&passed, 0xfedcba98) == -1);
        passed_drop_clients(&passed);
        CHECK(expect_removed(c, store) == 0);
        CHECK(fcntl(FIRST + 1, F_GETFD) < 0 && fcntl(FIRST + 2, F_GETFD) == FD_CLOEXEC);
        passed_deinit(&passed);
        CHECK(fcntl(FIRST, F_GETFD) < 0 && fcntl(FIRST + 2, F_GETFD) == FD_CLOEXEC);
        return 0;
}

static void test_take_clients(void **state) {
        Case c = { .kinds = "mmmm",
                   .names = "arena:client-0000002a:client-fedcba98:client-2b",
                   .removed = { "client-2b", "client-0000002a" } };

        (void) state;
        assert_int_equal(test_child_run(TEST_FORK, take_clients_in_child, &c), 0);
}

static int store_in_child(void *userdata) {
        passed_store_arena(*(int *) userdata);
        return 0;
}

/* One message with at most one descriptor, which is the caller's. */
static void hear(int store, char *ret_text, size_t size, int *ret_fd) {
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec iov = { .iov_base = ret_text, .iov_len = size - 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n = recvmsg(store, &message, MSG_CMSG_CLOEXEC);

        assert_true(n > 0);
        ret_text[n] = 0;
        assert_true(message.msg_controllen >= CMSG_LEN(sizeof(int)));
        assert_int_equal(control.header.cmsg_type, SCM_RIGHTS);
        memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(int));
}

/* The barrier is a pipe: as long as it is open, the store has not read the messages before it. */
static void test_store_arena(void **state) {
        const struct timeval limit = { .tv_sec = 10 };
        int store = open_store(), memfd = memfd_create("arena", MFD_CLOEXEC), fd;
        struct stat sent, got;
        char text[128];
        pid_t pid;

        (void) state;
        assert_int_equal(setsockopt(store, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
        pid = test_child_start(TEST_FORK, store_in_child, &memfd);
        hear(store, text, sizeof(text), &fd);
        assert_string_equal(text, "FDSTORE=1\nFDNAME=" PASSED_ARENA);
        assert_int_equal(fstat(memfd, &sent), 0);
        assert_int_equal(fstat(fd, &got), 0);
        assert_int_equal(got.st_ino, sent.st_ino);
        close(fd);
        hear(store, text, sizeof(text), &fd);
        assert_string_equal(text, "BARRIER=1");
        close(fd);
        assert_int_equal(test_child_wait(pid), 0);
        unsetenv("NOTIFY_SOCKET");
        close(memfd);
        close(store);
}

/* Without systemd there is nobody to tell. */
static void test_store_nowhere(void **state) {
        (void) state;
        unsetenv("NOTIFY_SOCKET");
        passed_store_arena(STDERR_FILENO);
        passed_remove(PASSED_ARENA);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_take_clients),  cmocka_unit_test(test_take_nothing),
                cmocka_unit_test(test_take_by_name),  cmocka_unit_test(test_take_wrong_type),
                cmocka_unit_test(test_take_too_many), cmocka_unit_test(test_take_bad_environment),
                cmocka_unit_test(test_store_arena),   cmocka_unit_test(test_store_nowhere),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
