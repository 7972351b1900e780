/*
 * A peer sends descriptors of a FUSE file system whose server answers no FUSE_FLUSH: closing one of them never ends.
 * The daemon serves all others meanwhile, even when so many descriptors wait that it takes no more, and when sockets
 * come that linger.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/cache/cache.h"
#include "tests/util/daemon-fixture.h"
#include "tests/daemon/fuse.h"
#include "tests/util/test.h"

#define N_MESSAGES 300U
#define N_LINGERING 20U
#define N_CLOSERS 40U /* more than the daemon has threads for: */
#define N_THREADS 32U
#define N_CALLS 8U
#define TIMEOUT_USEC UINT64_C(60000000)
#define DESCRIPTORS_MAX (7U * (N_MESSAGES + N_LINGERING)) /* a client and its connection need no more */

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

/* Over a connection that has attached: others may not send descriptors. */
static void send_attached(const DaemonFixture *daemon, unsigned i, int sent) {
        ProtoCall *call = daemon_connect(daemon, 0);

        daemon_attach(call);
        send_with_fd(proto_call_fd(call), i, sent);
}

static void send_file(const DaemonFixture *daemon, unsigned i, const char *path) {
        int sent = open(path, O_RDONLY | O_CLOEXEC);

        if (sent < 0)
                _exit(1);
        send_attached(daemon, i, sent);
}

static pid_t start_peer(const DaemonFixture *daemon, const FuseMount *fs) {
        int done[2];
        pid_t pid;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                alarm(600);
                for (unsigned i = 0; i < N_MESSAGES; i++)
                        send_file(daemon, i, fs->file);
                for (unsigned i = 0; i < N_LINGERING; i++) {
                        int sent = open_lingering();

                        send_attached(daemon, i, sent);
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

/* A client that uses the arena, and has closed its connection. Returns its number. */
static uint32_t open_away(const DaemonFixture *daemon) {
        RawClient client;

        raw_client_open(&client, daemon, 0);
        if (!shm_client_enter(&client.arena, client.client, 0))
                _exit(1);
        shm_cache_leave(&client.actor);
        client.call = proto_call_free(client.call);
        return client.client;
}

/* Waits for the file system in a system call that has the lock of this process's mappings. */
static void hold_mappings(const FuseMount *fs) {
        int fd = open(fs->file, O_RDWR | O_CLOEXEC);
        char *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (page == MAP_FAILED)
                _exit(1);
        *page = 1;
        (void) mmap(page, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static unsigned count_threads_in(pid_t pid, int call) {
        const struct dirent *entry;
        unsigned n = 0;
        char path[32];
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
        dir = opendir(path);
        while (dir && (entry = readdir(dir)))
                n += entry->d_name[0] != '.' && fuse_process_call(atoi(entry->d_name)) == call;
        if (dir)
                closedir(dir);
        return n;
}

/*
 * A process of two such clients. If `fs` is not NULL, it keeps the lock of its mappings. The daemon then has got a
 * descriptor of /proc/PID/maps from it, too, which waits behind others for its close().
 */
static pid_t start_away(const DaemonFixture *daemon, const FuseMount *fs, uint32_t ret_clients[2]) {
        int done[2];
        pid_t pid;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                uint32_t clients[2];

                alarm(600);
                for (unsigned i = 0; fs && i < N_CLOSERS; i++)
                        send_file(daemon, i, fs->file);
                while (fs &&
                       count_threads_in(daemon->pid, SYS_dup3) < N_THREADS) /* see daemon/peer/closer.c */
                        usleep(2000);
                if (fs)
                        send_file(daemon, 0, "/proc/self/maps");
                clients[0] = open_away(daemon);
                clients[1] = open_away(daemon);
                (void) !write(done[1], clients, sizeof(clients));
                if (fs)
                        hold_mappings(fs);
                for (;;)
                        pause();
        }
        close(done[1]);
        assert_int_equal(read(done[0], ret_clients, 2 * sizeof(ret_clients[0])), 2 * sizeof(ret_clients[0]));
        close(done[0]);
        return pid;
}

/* Descriptors of files of this name; NULL: all. */
static unsigned count_descriptors_of(pid_t pid, const char *wanted) {
        char path[64], name[64];
        unsigned n = 0;

        for (unsigned fd = 0; fd < 4096; fd++) {
                ssize_t size;

                snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int) pid, fd);
                size = readlink(path, name, sizeof(name) - 1);
                if (size < 0)
                        continue;
                name[size] = 0;
                n += !wanted || !strcmp(name, wanted);
        }
        return n;
}

typedef struct Fixture {
        DaemonFixture daemon;
        FuseMount fs;
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

static int teardown(void **state) {
        Fixture *f = *state;

        fuse_end(&f->fs);
        end_process(&f->peer);
        daemon_stop(&f->daemon);
        return 0;
}

static void test_descriptors_that_do_not_close(void **state) {
        _cleanup_(proto_call_freep) ProtoCall *parent = NULL, *inherited = NULL;
        Fixture *f = *state;

        if (!fuse_mount(&f->fs))
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
        assert_true(count_descriptors_of(f->daemon.pid, NULL) <= DESCRIPTORS_MAX);
        fuse_end(&f->fs);
        end_process(&f->peer);
        WAIT_FOR(is_readable(proto_call_fd(inherited)));
        WAIT_FOR(count_descriptors_of(f->daemon.pid, NULL) < 50);
}

/* The daemon scans the memory of a client whose connection is gone, and of one that ends meanwhile. */
static void test_client_that_is_away(void **state) {
        Fixture *f = *state;
        uint32_t clients[2];
        pid_t pid;

        if (!fuse_mount(&f->fs))
                skip();
        f->peer = start_peer(&f->daemon, &f->fs);
        pid = start_away(&f->daemon, NULL, clients);
        usleep(2500000); /* it is looked at once a second */
        end_process(&pid);
        for (int i = 0; i < 10; i++) {
                _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

                usleep(100000);
        }
}

/*
 * Two clients of one process are away, and nobody can read which memory it has. One of them leaves: the scan of the
 * other goes on, and closes no connection.
 */
static void test_clients_of_one_process(void **state) {
        ProtoCall *calls[N_CALLS];
        Fixture *f = *state;
        uint32_t clients[2];
        RawClient client;
        char maps[32];

        if (!fuse_mount(&f->fs))
                skip();
        raw_client_open(&client, &f->daemon, 0);
        f->peer = start_away(&f->daemon, &f->fs, clients);
        snprintf(maps, sizeof(maps), "/proc/%d/maps", (int) f->peer);
        WAIT_FOR(fuse_process_call(f->peer) == SYS_mmap);
        WAIT_FOR(count_descriptors_of(f->daemon.pid, maps) > 1);
        shm_client_leave(&client.arena, clients[1]);
        WAIT_FOR(shm_client_get(&client.arena, clients[1], &(ShmClientInfo){}) == -ENOENT);
        for (unsigned i = 0; i < N_CALLS; i++)
                calls[i] = daemon_connect(&f->daemon, 0);
        fuse_end(&f->fs);
        WAIT_FOR(count_descriptors_of(f->daemon.pid, maps) == 0);
        for (unsigned i = 0; i < N_CALLS; i++) {
                (void) proto_reply_free(daemon_stats(calls[i]));
                calls[i] = proto_call_free(calls[i]);
        }
        raw_client_close(&client);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_descriptors_that_do_not_close, setup, teardown),
                cmocka_unit_test_setup_teardown(test_client_that_is_away, setup, teardown),
                cmocka_unit_test_setup_teardown(test_clients_of_one_process, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
