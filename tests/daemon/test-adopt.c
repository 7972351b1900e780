/* Daemons that are killed without a service manager to keep the memory: the next daemon takes it from a client. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/arch/process.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define N_OBJECTS 500

typedef enum Op { ALLOC, GET, FREE, CLOSE, ADVANCE, STALE, OPEN, LOCK } Op;

typedef struct Request {
        Op op;
        uint64_t handle;
} Request;

typedef struct Answer {
        int64_t r;
        uint64_t handle;
} Answer;

/* ---- in a worker */

static int64_t do_alloc(struct tslab *pool, uint64_t *ret_handle) {
        void *object;
        int r = tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, ret_handle, &object);

        if (r == 0)
                pattern_fill(object, 128, 1, *ret_handle);
        return r;
}

static int64_t do_get(struct tslab *pool, uint64_t handle) {
        void *object;
        int r = tslab_get(pool, handle, &object, NULL);

        return r < 0 ? r : pattern_check(object, 128, 1);
}

/* As user `uid`, locks the memfd in a description of its own. */
static int64_t do_lock(uid_t uid) {
        char path[64], name[64];

        for (int fd = 3; fd < 64; fd++) {
                ssize_t n;

                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                n = readlink(path, name, sizeof(name) - 1);
                if (n < 0 || strncmp(name, "/memfd:tslab:", strlen("/memfd:tslab:")) != 0)
                        continue;
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (setresuid(uid, uid, uid) < 0)
                        return -errno;
                return flock(fd, LOCK_SH | LOCK_NB) < 0 ? -errno : 0; /* stays open */
        }
        return -ENOENT;
}

static Answer answer(struct tslab *pool, const Request *q, const char *socket) {
        struct tslab *second;
        Answer a = {};
        uint32_t epoch;

        switch (q->op) {
        case ALLOC:
                a.r = do_alloc(pool, &a.handle);
                break;
        case GET:
                a.r = do_get(pool, q->handle);
                break;
        case FREE:
                a.r = tslab_free(pool, q->handle);
                break;
        case CLOSE:
                a.r = tslab_epoch_close(pool, (uint32_t) q->handle, 0);
                break;
        case ADVANCE:
                a.r = tslab_epoch_advance(pool, &epoch);
                a.handle = epoch;
                break;
        case STALE:
                a.r = tslab_stale(pool);
                break;
        case OPEN:
                a.r = tslab_open(&second, socket, NULL); /* stays open */
                break;
        case LOCK:
                a.r = do_lock((uid_t) q->handle);
                break;
        }
        return a;
}

static int worker(const char *socket, const char *kind) {
        struct tslab_options options = { .size = sizeof(options) };
        struct tslab *pool;
        Request request;
        Answer a;
        int r;

        if (!strcmp(kind, "reader"))
                options.flags = TSLAB_READER;
        r = tslab_open(&pool, socket, &options);
        if (r < 0)
                return 1;
        if (!strcmp(kind, "parent") && fork() > 0)
                for (;;)
                        pause();
        a = (Answer){ .handle = (uint64_t) getpid() };
        role_write(&a, sizeof(a)); /* it is there */
        while (role_read(&request, sizeof(request))) {
                a = answer(pool, &request, socket);
                role_write(&a, sizeof(a));
        }
        (void) tslab_close(pool);
        return 0;
}

/* ---- in the test */

static void start_worker(Role *role, const DaemonFixture *daemon, const char *kind) {
        Answer a;

        role_start(role, "worker", daemon->socket, kind);
        role_hear(role, &a, sizeof(a));
}

static int64_t ask(Role *role, Op op, uint64_t handle, uint64_t *ret_handle) {
        Request request = { .op = op, .handle = handle };
        Answer a;

        role_tell(role, &request, sizeof(request));
        role_hear(role, &a, sizeof(a));
        if (ret_handle)
                *ret_handle = a.handle;
        return a.r;
}

static void end_worker(Role *role) {
        assert_int_equal(kill(role->pid, SIGKILL), 0);
        assert_int_equal(role_wait(role), -SIGKILL);
}

static const char *adopt_from(pid_t pid) {
        static char text[32];

        snprintf(text, sizeof(text), "--adopt=%d", (int) pid);
        return text;
}

static void start(DaemonFixture *daemon) {
        daemon_start(daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
}

static void adopt(DaemonFixture *daemon, pid_t pid) {
        daemon_restart(daemon, (const char *[]){ "--size=16M", "--log-level=err", adopt_from(pid), NULL });
}

/* It must not start, and say why. */
static void check_refused(const char *dir, const char *argument, const char *why) {
        char text[1024];

        assert_int_equal(
                daemon_run(dir, (const char *[]){ "--size=16M", argument, NULL }, NULL, text, sizeof(text)),
                1);
        if (!strstr(text, why))
                print_error("%s\n", text);
        assert_non_null(strstr(text, why));
}

static uint32_t n_clients(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(daemon, 0);

        return daemon_n_clients(call);
}

/* One client dies while there is no daemon; another goes on all the time. */
static void check_adopt(const char *from) {
        uint64_t handles[2][N_OBJECTS], more, epoch;
        DaemonFixture daemon;
        Role lives, dies, source;

        start(&daemon);
        start_worker(&lives, &daemon, "writer");
        start_worker(&dies, &daemon, "writer");
        start_worker(&source, &daemon, from);
        for (int i = 0; i < N_OBJECTS; i++) {
                assert_int_equal(ask(&lives, ALLOC, 0, &handles[0][i]), 0);
                assert_int_equal(ask(&dies, ALLOC, 0, &handles[1][i]), 0);
        }
        daemon_kill(&daemon);
        assert_int_equal(ask(&lives, ALLOC, 0, &more), 0);
        for (int i = 0; i < N_OBJECTS / 2; i++)
                assert_int_equal(ask(&dies, FREE, handles[1][i], NULL), 0); /* into its caches */
        end_worker(&dies);
        adopt(&daemon, source.pid);

        WAIT_FOR(n_clients(&daemon) == 2);
        ctl_check(&daemon);
        assert_int_equal(ask(&lives, GET, more, NULL), 1);
        for (int i = 0; i < N_OBJECTS; i++) {
                assert_int_equal(ask(&lives, GET, handles[0][i], NULL), 1);
                assert_int_equal(ask(&lives, GET, handles[1][i], NULL), i < N_OBJECTS / 2 ? -ESTALE : 1);
        }
        /* Connects by itself. */
        assert_int_equal(ask(&lives, ADVANCE, 0, &epoch), 0);
        assert_int_equal(ask(&lives, CLOSE, 0, NULL), 0);
        assert_int_equal(ask(&lives, STALE, 0, NULL), 0);
        for (int i = 0; i < N_OBJECTS; i++) {
                assert_int_equal(ask(&lives, FREE, handles[0][i], NULL), 0);
                if (i >= N_OBJECTS / 2)
                        assert_int_equal(ask(&lives, FREE, handles[1][i], NULL), 0);
        }
        assert_int_equal(ask(&lives, FREE, more, NULL), 0);
        WAIT_FOR(ctl_stat(&daemon, "epochs", "0", "slabs") == 0);
        ctl_check(&daemon);
        assert_int_equal(role_wait(&lives), 0);
        assert_int_equal(role_wait(&source), 0);
        WAIT_FOR(n_clients(&daemon) == 0);
        daemon_stop(&daemon);
}

static void test_adopt(void **state) {
        check_adopt("writer");
}

static void test_adopt_from_reader(void **state) {
        check_adopt("reader");
}

/* The next one takes it from a client too. */
static void test_adopt_again(void **state) {
        DaemonFixture daemon;
        uint64_t handle;
        Role client;

        start(&daemon);
        start_worker(&client, &daemon, "writer");
        assert_int_equal(ask(&client, ALLOC, 0, &handle), 0);
        for (int i = 0; i < 3; i++) {
                daemon_kill(&daemon);
                adopt(&daemon, client.pid);
                assert_int_equal(n_clients(&daemon), 1);
                assert_int_equal(ask(&client, GET, handle, NULL), 1);
                assert_int_equal(ask(&client, ADVANCE, 0, NULL), 0);
                ctl_check(&daemon);
        }
        assert_int_equal(role_wait(&client), 0);
        daemon_stop(&daemon);
}

static pid_t start_child(uid_t uid) {
        int fds[2];
        char byte = 0;
        pid_t pid;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                alarm(600);
                if (uid != 0 && setresuid(uid, uid, uid) < 0)
                        _exit(1);
                (void) !write(fds[1], &byte, 1);
                for (;;)
                        pause();
        }
        assert_int_equal(read(fds[0], &byte, 1), 1);
        close(fds[0]);
        close(fds[1]);
        return pid;
}

static void end_child(pid_t pid) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_adopt_wrong_process(void **state) {
        DaemonFixture daemon;
        Role client;
        pid_t pid;

        start(&daemon);
        start_worker(&client, &daemon, "writer");
        daemon_kill(&daemon);

        pid = start_child(0);
        check_refused(daemon.dir, adopt_from(pid), "is no client of pool default");
        end_child(pid);
        check_refused(daemon.dir, adopt_from(pid), "there is no process");
        if (geteuid() == 0) {
                pid = start_child(65534);
                check_refused(daemon.dir, adopt_from(pid), "belongs to user 65534");
                end_child(pid);
        }
        {
                char text[512];

                assert_int_equal(daemon_run(daemon.dir,
                                            (const char *[]){ "--pool=other", adopt_from(client.pid), NULL },
                                            NULL, text, sizeof(text)),
                                 1);
                assert_non_null(strstr(text, "is no client of pool other"));
                assert_int_equal(daemon_run(daemon.dir, (const char *[]){ "--adopt=0", NULL }, NULL, text,
                                            sizeof(text)),
                                 2);
                assert_non_null(strstr(text, "the number of a process"));
        }
        /* None of this did any harm. */
        adopt(&daemon, client.pid);
        assert_int_equal(role_wait(&client), 0);
        daemon_stop(&daemon);
}

/* It has the memory from its parent, and no part in the pool. */
static void test_adopt_child_that_did_not_attach(void **state) {
        DaemonFixture daemon;
        Role parent;
        Answer child;

        start(&daemon);
        role_start(&parent, "worker", daemon.socket, "parent");
        role_hear(&parent, &child, sizeof(child));
        daemon_kill(&daemon);
        check_refused(daemon.dir, adopt_from((pid_t) child.handle), "is none of its clients");
        adopt(&daemon, parent.pid);
        assert_int_equal(ask(&parent, ALLOC, 0, NULL), 0); /* the child, which alone gets the signal */
        assert_int_equal(n_clients(&daemon), 2);
        ctl_check(&daemon);
        end_worker(&parent);
        daemon_stop(&daemon);
}

static uint64_t *client_word(const RawClient *client, pid_t pid) {
        ShmClientInfo info;

        for (uint32_t i = 0; i < client->arena.n_records; i++)
                if (shm_client_get(&client->arena, i, &info) == 0 && info.pid == pid)
                        return &client->arena.clients[i].word;
        fail();
        return NULL;
}

/* Another program has the number of a client that died: it does not pass for it, in either way. */
static void test_adopt_number_given_anew(void **state) {
        pid_t pid = start_child(0);
        DaemonFixture daemon;
        uint32_t start_time;
        RawClient self;
        uint64_t *word;
        Role dies;

        start(&daemon);
        raw_client_open(&self, &daemon, 0);
        start_worker(&dies, &daemon, "writer");
        assert_int_equal(ask(&dies, ALLOC, 0, NULL), 0); /* with caches */
        daemon_kill(&daemon);
        word = client_word(&self, dies.pid);
        end_worker(&dies);
        assert_int_equal(shm_process_start_time(pid, &start_time), 0);
        *word = *word >> 56 << 56 | (uint64_t) pid << 32 | (start_time - 1);
        check_refused(daemon.dir, adopt_from(pid), "is no client of pool default");

        word = client_word(&self, getpid());
        *word += 1; /* the start time */
        check_refused(daemon.dir, adopt_from(getpid()), "is none of its clients");
        *word -= 1;

        adopt(&daemon, getpid());
        WAIT_FOR(n_clients(&daemon) == 1);
        assert_int_equal(kill(pid, 0), 0);
        ctl_check(&daemon);
        raw_client_close(&self);
        end_child(pid);
        daemon_stop(&daemon);
}

/* With --fresh the daemon gives up the memory of its clients, and names one of them. */
static void restart_and_read(DaemonFixture *daemon, char *ret_text, size_t size) {
        int saved = dup(STDERR_FILENO), fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        ssize_t n;

        assert_true(saved >= 0 && fd >= 0);
        assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
        daemon_restart(daemon, (const char *[]){ "--size=16M", "--log-level=warning", "--fresh", NULL });
        assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
        n = pread(fd, ret_text, size - 1, 0);
        assert_true(n >= 0);
        ret_text[n] = 0;
        close(fd);
        close(saved);
}

static void test_adopt_or_fresh(void **state) {
        DaemonFixture daemon;
        char text[1024], pid[48];
        Role client;

        start(&daemon);
        start_worker(&client, &daemon, "writer");
        daemon_kill(&daemon);
        for (int i = 0; i < 2; i++) /* the first refusal forgets nothing */
                check_refused(daemon.dir, "--log-level=warning", adopt_from(client.pid));
        assert_int_equal(ask(&client, ALLOC, 0, NULL), 0);
        restart_and_read(&daemon, text, sizeof(text));
        snprintf(pid, sizeof(pid), "still in use by 1 process: %d,", (int) client.pid);
        assert_non_null(strstr(text, pid));

        /* Now it has both. */
        assert_int_equal(ask(&client, ADVANCE, 0, NULL), -EUCLEAN);
        assert_int_equal(ask(&client, STALE, 0, NULL), 1);
        assert_int_equal(ask(&client, OPEN, 0, NULL), 0);
        daemon_kill(&daemon);
        check_refused(daemon.dir, adopt_from(client.pid), "several arenas");
        end_worker(&client);

        restart_and_read(&daemon, text, sizeof(text));
        assert_null(strstr(text, "in use"));
        daemon_stop(&daemon);
}

/* An upgrade: the daemon that follows knows another format, and so cannot take the memory. It must not begin anew. */
static void test_adopt_other_format(void **state) {
        DaemonFixture daemon;
        RawClient self;
        char open[64];

        (void) state;
        start(&daemon);
        raw_client_open(&self, &daemon, 0);
        daemon_kill(&daemon);
        self.arena.header->format_hash++;
        snprintf(open, sizeof(open), "is still open in 1 process: %d. To go on", (int) getpid());
        check_refused(daemon.dir, "--log-level=warning", open);
        check_refused(daemon.dir, adopt_from(getpid()), "start one of the build that made it, or");
        self.arena.header->format_hash--;
        adopt(&daemon, getpid());
        raw_client_close(&self);
        daemon_stop(&daemon);
}

/* A daemon that is stopped by hand, and started again. */
static void test_adopt_after_stop(void **state) {
        DaemonFixture daemon;
        Role client;
        int status;

        start(&daemon);
        start_worker(&client, &daemon, "writer");
        assert_int_equal(kill(daemon.pid, SIGTERM), 0);
        assert_int_equal(waitpid(daemon.pid, &status, 0), daemon.pid);
        check_refused(daemon.dir, "--log-level=warning", adopt_from(client.pid));
        adopt(&daemon, client.pid);
        assert_int_equal(ask(&client, ADVANCE, 0, NULL), 0);
        assert_int_equal(role_wait(&client), 0);
        daemon_stop(&daemon);
}

/* The lock of the pool is another one in another directory. */
static void test_adopt_while_it_is_served(void **state) {
        char dir[] = "/tmp/tslab-test-XXXXXX", path[64];
        DaemonFixture daemon;
        Role client;

        start(&daemon);
        start_worker(&client, &daemon, "writer");
        assert_non_null(mkdtemp(dir));
        check_refused(dir, adopt_from(client.pid), "served by another tslabd already");
        check_refused(daemon.dir, adopt_from(client.pid), "served by another tslabd already");
        assert_int_equal(ask(&client, ADVANCE, 0, NULL), 0);
        daemon_kill(&daemon);
        adopt(&daemon, client.pid);
        check_refused(dir, adopt_from(client.pid), "served by another tslabd already");
        assert_int_equal(role_wait(&client), 0);
        daemon_stop(&daemon);
        snprintf(path, sizeof(path), "%s/default.lock", dir);
        (void) unlink(path);
        (void) rmdir(dir);
}

/* A client can lock the memory, too. It keeps no daemon from it, nor two daemons of one user apart. */
static void test_adopt_memory_that_a_client_locked(void **state) {
        char dir[] = "/tmp/tslab-test-XXXXXX", path[64];
        DaemonFixture daemon;
        Role client, locker;

        if (geteuid() != 0)
                skip();
        start(&daemon);
        start_worker(&client, &daemon, "writer");
        start_worker(&locker, &daemon, "reader");
        daemon_kill(&daemon);
        assert_int_equal(ask(&locker, LOCK, 65534, NULL), 0);
        adopt(&daemon, client.pid);
        assert_int_equal(ask(&client, ADVANCE, 0, NULL), 0);
        ctl_check(&daemon);
        assert_non_null(mkdtemp(dir));
        check_refused(dir, adopt_from(client.pid), "served by another tslabd already");
        end_worker(&locker);
        check_refused(dir, adopt_from(client.pid), "served by another tslabd already");
        assert_int_equal(role_wait(&client), 0);
        daemon_stop(&daemon);
        snprintf(path, sizeof(path), "%s/default.lock", dir);
        (void) unlink(path);
        (void) rmdir(dir);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_adopt),
                cmocka_unit_test(test_adopt_from_reader),
                cmocka_unit_test(test_adopt_again),
                cmocka_unit_test(test_adopt_wrong_process),
                cmocka_unit_test(test_adopt_child_that_did_not_attach),
                cmocka_unit_test(test_adopt_number_given_anew),
                cmocka_unit_test(test_adopt_or_fresh),
                cmocka_unit_test(test_adopt_other_format),
                cmocka_unit_test(test_adopt_after_stop),
                cmocka_unit_test(test_adopt_while_it_is_served),
                cmocka_unit_test(test_adopt_memory_that_a_client_locked),
        };

        if (argc == 4)
                return worker(argv[2], argv[3]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
