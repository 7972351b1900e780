#include "tests/util/daemon-fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache.h"
#include "shm/maintain/freeze.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

unsigned daemon_descriptors;

static const char *tslabd_path(void) {
        return getenv("TSLABD") ?: TSLABD_PATH;
}

static void remove_dir(const char *dir) {
        DIR *d = opendir(dir);
        struct dirent *entry;

        while (d && (entry = readdir(d)))
                (void) unlinkat(dirfd(d), entry->d_name, 0);
        if (d)
                closedir(d);
        (void) rmdir(dir);
}

/* In the child. None of our own settings reach the daemon, and it does not outlive us. */
static void become_daemon(const char *dir, const char *const *arguments, const char *variable) {
        const char *argv[32] = { "tslabd" };

        for (size_t i = 0; arguments && arguments[i] && i < 30; i++)
                argv[i + 1] = arguments[i];
        end_with_parent();
        for (const char *const *name =
                     (const char *[]){ "TSLAB_POOL", "TSLAB_SIZE", "TSLAB_CLASSES", "TSLAB_EPOCHS",
                                       "TSLAB_THREADS", "TSLAB_RETAIN", "TSLAB_LISTEN", "LISTEN_FDS",
                                       "NOTIFY_SOCKET", "JOURNAL_STREAM", NULL };
             *name; name++)
                unsetenv(*name);
        setenv("TSLAB_RUNTIME_DIR", dir, 1);
        /* It would give back memory whenever any other test on this machine has to wait for some. */
        setenv("MEMORY_PRESSURE_WATCH", "/dev/null", 1);
        if (daemon_descriptors > 0)
                (void) setrlimit(RLIMIT_NOFILE, &(struct rlimit){ daemon_descriptors, daemon_descriptors });
        if (variable)
                putenv(strdup(variable));
        execv(tslabd_path(), (char *const *) argv);
        _exit(127);
}

int daemon_run(const char *dir, const char *const *arguments, const char *variable, char *ret_text,
               size_t size) {
        int pipe_fds[2], status;
        size_t n = 0;
        ssize_t got;
        pid_t pid;

        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) dup2(pipe_fds[1], STDERR_FILENO);
                (void) dup2(pipe_fds[1], STDOUT_FILENO);
                alarm(DAEMON_TIMEOUT_USEC / 1000000); /* one that was not to start */
                become_daemon(dir, arguments, variable);
        }
        close(pipe_fds[1]);
        while (n < size - 1 && (got = read(pipe_fds[0], ret_text + n, size - 1 - n)) > 0)
                n += (size_t) got;
        ret_text[n] = 0;
        close(pipe_fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int try_connect(const DaemonFixture *daemon, uint32_t want_role, ProtoCall **ret_call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoHello hello = PROTO_HELLO_INIT;

        hello.software = (char *) "test";
        hello.comm = (char *) "test";
        hello.want_role = want_role;
        return proto_call_open(ret_call, daemon->socket, &hello, DAEMON_TIMEOUT_USEC, &reply);
}

bool daemon_answers(const DaemonFixture *daemon) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;

        return try_connect(daemon, 0, &call) == 0;
}

void daemon_start(DaemonFixture *daemon, const char *const *arguments) {
        *daemon = (DaemonFixture){ .dir = "/tmp/tslab-test-XXXXXX" };
        assert_non_null(mkdtemp(daemon->dir));
        assert_int_equal(chmod(daemon->dir, 0755), 0);
        snprintf(daemon->socket, sizeof(daemon->socket), "%s/default.sock", daemon->dir);
        daemon_restart(daemon, arguments);
}

void daemon_restart(DaemonFixture *daemon, const char *const *arguments) {
        daemon->pid = fork();
        assert_true(daemon->pid >= 0);
        if (daemon->pid == 0)
                become_daemon(daemon->dir, arguments, NULL);
        WAIT_FOR(daemon_answers(daemon));
}

static int start_logged(DaemonFixture *daemon, const char *const *arguments,
                        void (*start)(DaemonFixture *, const char *const *)) {
        int saved = dup(STDERR_FILENO), fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);

        assert_true(saved >= 0 && fd >= 0);
        assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
        start(daemon, arguments);
        assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
        close(saved);
        return fd;
}

int daemon_start_logged(DaemonFixture *daemon, const char *const *arguments) {
        return start_logged(daemon, arguments, daemon_start);
}

int daemon_restart_logged(DaemonFixture *daemon, const char *const *arguments) {
        return start_logged(daemon, arguments, daemon_restart);
}

void daemon_stop(DaemonFixture *daemon) {
        struct stat st;
        int status;

        assert_int_equal(kill(daemon->pid, SIGTERM), 0);
        assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_not_equal(lstat(daemon->socket, &st), 0);
        daemon->pid = 0;
        remove_dir(daemon->dir);
}

void daemon_kill(DaemonFixture *daemon) {
        assert_int_equal(kill(daemon->pid, SIGKILL), 0);
        assert_int_equal(waitpid(daemon->pid, NULL, 0), daemon->pid);
        daemon->pid = 0;
}

void daemon_hold(const DaemonFixture *daemon) {
        int status;

        assert_int_equal(kill(daemon->pid, SIGSTOP), 0);
        assert_int_equal(waitpid(daemon->pid, &status, WUNTRACED), daemon->pid);
        assert_true(WIFSTOPPED(status));
}

void daemon_release(const DaemonFixture *daemon) {
        assert_int_equal(kill(daemon->pid, SIGCONT), 0);
}

ProtoCall *daemon_connect(const DaemonFixture *daemon, uint32_t want_role) {
        ProtoCall *call = NULL;

        assert_int_equal(try_connect(daemon, want_role, &call), 0);
        return call;
}

ProtoReply *daemon_call(ProtoCall *call, ProtoRequest *request, ProtoFds *ret_fds) {
        ProtoReply *reply = NULL;
        int r = proto_call(call, request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, ret_fds);

        if (r == PROTO_E_REFUSED)
                print_error("refused: %s\n", reply->message);
        assert_int_equal(r, 0);
        return reply;
}

void daemon_attach(ProtoCall *call) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;

        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        reply = daemon_call(call, &request, &fds);
}

ProtoReply *daemon_stats(ProtoCall *call) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;

        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        return daemon_call(call, &request, NULL);
}

ProtoReply *daemon_close(ProtoCall *call, uint32_t epoch) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        return daemon_call(call, &request, NULL);
}

uint32_t daemon_advance(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        reply = daemon_call(call, &request, NULL);
        return reply->epoch_advance->epoch;
}

uint64_t daemon_trim(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim body = TSLAB__TRIM__INIT;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &body;
        reply = daemon_call(call, &request, NULL);
        return reply->trim->reclaimed_bytes;
}

uint32_t daemon_n_clients(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

        return reply->stats->clients;
}

void daemon_child(int (*child)(const DaemonFixture *daemon, uint64_t argument), const DaemonFixture *daemon,
                  uint64_t argument) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                /* Else cmocka would go on with the next test, in the child too. */
                setenv("CMOCKA_TEST_ABORT", "1", 1);
                _exit(child(daemon, argument));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

void raw_client_attach(RawClient *client, ProtoCall *call, uint32_t role, uint32_t entry) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;

        *client = (RawClient){ .call = call };
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        attach.entry = entry;
        reply = daemon_call(call, &request, &fds);
        client->client = reply->attach->client;
        assert_int_equal(reply->attach->role, role);
        assert_int_equal(shm_arena_map(&client->arena, proto_fds_take(&fds, 0), role == PROTO_ROLE_READER),
                         0);
        if (role == PROTO_ROLE_READER)
                return;
        client->arena.wake_fd = proto_fds_take(&fds, 1);
        assert_int_equal(shm_membarrier_register(), 0);
        assert_int_equal(shm_actor_init(&client->actor, &client->arena, client->client, (uint32_t) gettid()),
                         0);
}

void raw_client_open(RawClient *client, const DaemonFixture *daemon, uint32_t want_role) {
        raw_client_attach(client, daemon_connect(daemon, want_role), want_role ?: PROTO_ROLE_OPERATOR, 0);
}

void raw_client_close(RawClient *client) {
        shm_cache_leave(&client->actor);
        client->call = proto_call_free(client->call);
        shm_arena_deinit(&client->arena);
}

RawPool *raw_pool_open(const char *const *arguments, size_t n_handles) {
        RawPool *pool = calloc(1, sizeof(*pool));

        assert_non_null(pool);
        pool->handles = calloc(n_handles, sizeof(*pool->handles));
        assert_non_null(pool->handles);
        daemon_start(&pool->daemon, arguments);
        raw_client_open(&pool->client, &pool->daemon, 0);
        return pool;
}

int raw_pool_teardown(void **state) {
        RawPool *pool = *state;

        raw_client_close(&pool->client);
        daemon_stop(&pool->daemon);
        free(pool->handles);
        free(pool);
        return 0;
}
