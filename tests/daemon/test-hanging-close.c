/*
 * A peer sends descriptors of a FUSE file system whose server answers no FUSE_FLUSH: close() of one waits without end.
 * The daemon serves all others meanwhile, also when so many wait that it takes no more, and sockets that linger come.
 * The test is that server.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define FILE_ID 2U
#define N_MESSAGES 300U
#define N_LINGERING 20U
#define TIMEOUT_USEC UINT64_C(10000000)
#define DESCRIPTORS_MAX (7U * (N_MESSAGES + N_LINGERING)) /* a client and its connection need no more */

typedef struct FileSystem {
        char dir[32], file[48];
        pid_t server;
} FileSystem;

/* ---- the server */

static void answer(int fuse, uint64_t unique, int error, const void *body, size_t size) {
        char data[4096];
        struct fuse_out_header header = { .len = (uint32_t) (sizeof(header) + size),
                                          .error = error,
                                          .unique = unique };

        memcpy(data, &header, sizeof(header));
        memcpy(data + sizeof(header), body, size);
        (void) !write(fuse, data, header.len);
}

static struct fuse_attr attributes_of(uint64_t id) {
        return (struct fuse_attr){ .ino = id,
                                   .nlink = 1,
                                   .mode = id == FILE_ID ? S_IFREG | 0666 : S_IFDIR | 0755 };
}

static void serve_request(int fuse, const struct fuse_in_header *in) {
        struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
        struct fuse_entry_out entry = { .nodeid = FILE_ID, .attr = attributes_of(FILE_ID) };
        struct fuse_attr_out attributes = { .attr = attributes_of(in->nodeid) };
        struct fuse_open_out opened = {};

        switch (in->opcode) {
        case FUSE_INIT:
                answer(fuse, in->unique, 0, &init, sizeof(init));
                break;
        case FUSE_LOOKUP:
                answer(fuse, in->unique, 0, &entry, sizeof(entry));
                break;
        case FUSE_GETATTR:
                answer(fuse, in->unique, 0, &attributes, sizeof(attributes));
                break;
        case FUSE_OPEN:
                answer(fuse, in->unique, 0, &opened, sizeof(opened));
                break;
        case FUSE_FLUSH:
        case FUSE_INTERRUPT:
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
                break;
        default:
                answer(fuse, in->unique, -ENOSYS, "", 0);
        }
}

static void serve(int fuse) {
        static char data[FUSE_MIN_READ_BUFFER * 4];

        for (;;) {
                ssize_t n = read(fuse, data, sizeof(data));

                if (n >= (ssize_t) sizeof(struct fuse_in_header))
                        serve_request(fuse, (const struct fuse_in_header *) (const void *) data);
                else if (n < 0 && errno != EINTR && errno != ENOENT)
                        _exit(0);
        }
}

/* False: this process may not mount. */
static bool mount_file_system(FileSystem *fs) {
        char options[96];
        int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

        if (fuse < 0)
                return false;
        strcpy(fs->dir, "/tmp/tslab-fuse-XXXXXX");
        assert_non_null(mkdtemp(fs->dir));
        snprintf(fs->file, sizeof(fs->file), "%s/f", fs->dir);
        snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse, geteuid(),
                 getegid());
        if (mount("tslab-test", fs->dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
                close(fuse);
                rmdir(fs->dir);
                return false;
        }
        fs->server = fork();
        assert_true(fs->server >= 0);
        if (fs->server == 0) {
                alarm(120);
                serve(fuse);
        }
        close(fuse);
        return true;
}

/* ---- the peer, in a process of its own, whose close() waits too */

static void send_with_fd(int fd, unsigned i, int sent) {
        uint8_t data[64];
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        Tslab__Samples samples = TSLAB__SAMPLES__INIT;
        Tslab__ForkAttach fork_attach = TSLAB__FORK_ATTACH__INIT;
        size_t size;

        request.id = 1;
        samples.every = 1;
        switch (i % 4) {
        case 0:
                request.body_case = TSLAB__REQUEST__BODY_STATS;
                request.stats = &stats;
                break;
        case 1:
                request.body_case = TSLAB__REQUEST__BODY_SAMPLES;
                request.samples = &samples;
                break;
        case 2:
                request.body_case = TSLAB__REQUEST__BODY_FORK_ATTACH;
                request.fork_attach = &fork_attach;
                break;
        default:
                (void) proto_send(fd, "nonsense", 8, &sent, 1, NULL);
                return;
        }
        size = tslab__request__pack(&request, data);
        (void) proto_send(fd, data, size, &sent, 1, NULL);
}

/* close() of it waits until what was sent is read, which is never, for as long as the linger time says. */
static int open_lingering(void) {
        const struct linger linger = { .l_onoff = 1, .l_linger = 100 };
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t size = sizeof(address);

        if (bind(listener, (const struct sockaddr *) &address, size) < 0 || listen(listener, 1) < 0 ||
            getsockname(listener, (struct sockaddr *) &address, &size) < 0 ||
            connect(fd, (const struct sockaddr *) &address, size) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
                _exit(1);
        while (send(fd, (char[4096]){}, 4096, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        return fd;
}

static void send_stats(int fd) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
}

static bool is_readable(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, 0) == 1;
}

static pid_t start_peer(const DaemonFixture *daemon, const FileSystem *fs) {
        int done[2];
        pid_t pid;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                alarm(120);
                for (unsigned i = 0; i < N_MESSAGES; i++) {
                        ProtoCall *call = daemon_connect(daemon, 0);
                        int sent = open(fs->file, O_RDONLY | O_CLOEXEC);

                        if (sent < 0)
                                _exit(1);
                        daemon_attach(call); /* others may not send descriptors */
                        send_with_fd(proto_call_fd(call), i, sent);
                }
                for (unsigned i = 0; i < N_LINGERING; i++) {
                        ProtoCall *call = daemon_connect(daemon, 0);
                        int sent = open_lingering();

                        daemon_attach(call);
                        send_with_fd(proto_call_fd(call), i, sent);
                        (void) close(sent);
                }
                (void) !write(done[1], "", 1);
                for (;;)
                        pause();
        }
        close(done[1]);
        assert_int_equal(read(done[0], &(char){ 0 }, 1), 1);
        close(done[0]);
        return pid;
}

/* A process that uses the arena, and has closed its connection. */
static pid_t start_away(const DaemonFixture *daemon) {
        int done[2];
        pid_t pid;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                RawClient client;

                alarm(120);
                raw_client_open(&client, daemon, 0);
                if (!shm_client_enter(&client.arena, client.client, 0))
                        _exit(1);
                client.call = proto_call_free(client.call);
                (void) !write(done[1], "", 1);
                for (;;)
                        pause();
        }
        close(done[1]);
        assert_int_equal(read(done[0], &(char){ 0 }, 1), 1);
        close(done[0]);
        return pid;
}

static unsigned count_descriptors_of(pid_t pid) {
        char path[64];
        unsigned n = 0;

        for (unsigned fd = 0; fd < 4096; fd++) {
                struct stat st;

                snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int) pid, fd);
                n += lstat(path, &st) == 0;
        }
        return n;
}

typedef struct Fixture {
        DaemonFixture daemon;
        FileSystem fs;
        pid_t peer;
} Fixture;

static int setup(void **state) {
        static Fixture f;

        daemon_start(&f.daemon, (const char *[]){ "--size=1M", "--log-level=err", NULL });
        *state = &f;
        return 0;
}

static void end_process(pid_t *pid) {
        if (*pid > 0) {
                (void) kill(*pid, SIGKILL);
                (void) waitpid(*pid, NULL, 0);
        }
        *pid = 0;
}

/* The death of the server ends all waits. */
static int teardown(void **state) {
        Fixture *f = *state;

        if (f->fs.server > 0) {
                end_process(&f->fs.server);
                end_process(&f->peer);
                assert_int_equal(umount2(f->fs.dir, MNT_DETACH), 0);
                assert_int_equal(rmdir(f->fs.dir), 0);
        }
        daemon_stop(&f->daemon);
        return 0;
}

static void test_descriptors_that_do_not_close(void **state) {
        _cleanup_(proto_call_freep) ProtoCall *parent = NULL, *inherited = NULL;
        Fixture *f = *state;

        if (!mount_file_system(&f->fs))
                skip();
        parent = daemon_connect(&f->daemon, 0);
        daemon_attach(parent);
        assert_int_equal(proto_call_fork_attach(&inherited, proto_call_fd(parent), "child", TIMEOUT_USEC), 0);
        f->peer = start_peer(&f->daemon, &f->fs);
        send_stats(proto_call_fd(inherited));
        for (int i = 0; i < 10; i++) {
                _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

                assert_int_equal(reply->stats->live_objects, 0);
        }
        assert_false(is_readable(proto_call_fd(inherited))); /* its other end may be in other hands, too */
        assert_true(count_descriptors_of(f->daemon.pid) <= DESCRIPTORS_MAX);
        end_process(&f->fs.server);
        end_process(&f->peer);
        WAIT_FOR(is_readable(proto_call_fd(inherited)));
        WAIT_FOR(count_descriptors_of(f->daemon.pid) < 50);
        assert_int_equal(umount2(f->fs.dir, MNT_DETACH), 0);
        assert_int_equal(rmdir(f->fs.dir), 0);
}

/* The daemon scans the memory of a client whose connection is gone, and of one that ends meanwhile. */
static void test_client_that_is_away(void **state) {
        Fixture *f = *state;
        pid_t pid;

        if (!mount_file_system(&f->fs))
                skip();
        f->peer = start_peer(&f->daemon, &f->fs);
        pid = start_away(&f->daemon);
        usleep(2500000); /* it is looked at once a second */
        end_process(&pid);
        for (int i = 0; i < 10; i++) {
                _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

                usleep(100000);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_descriptors_that_do_not_close, setup, teardown),
                cmocka_unit_test_setup_teardown(test_client_that_is_away, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
