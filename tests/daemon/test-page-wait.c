/*
 * A writer keeps the lock of the arena's file: it writes to it from a page that never comes, since nobody serves its
 * userfaultfd. The daemon's own call for pages waits; it answers questions meanwhile, and names the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/daemon-fixture.h"
#include "tests/daemon/fuse.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define N_OBJECTS 3000U

/* A page such that a read of it waits for ever; NULL: this process may not make one. */
static void *page_that_never_comes(void) {
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
        size_t size = (size_t) sysconf(_SC_PAGESIZE);
        int fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC);
        void *page;

        if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
                return NULL;
        page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        range.range.start = (uintptr_t) page;
        range.range.len = size;
        assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
        return page;
}

/* The process that keeps the lock until it is killed. Without a daemon, it is a child of a client. */
static pid_t start_holder(const RawPool *pool) {
        RawClient client = { .arena = pool->client.arena };
        void *page;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid != 0)
                return pid;
        end_with_parent();
        if (pool->daemon.pid != 0)
                raw_client_open(&client, &pool->daemon, PROTO_ROLE_WRITER);
        page = page_that_never_comes();
        if (page)
                (void) !pwrite(client.arena.fd, page, 16, (off_t) client.arena.size - 4096);
        _exit(1);
}

/* A process inside a write to another file, of a file system that answers nothing any more. */
static pid_t start_decoy(const FuseMount *fs) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid != 0)
                return pid;
        end_with_parent();
        (void) !write(open(fs->file, O_WRONLY | O_CLOEXEC), "x", 1);
        _exit(1);
}

static bool is_writing(pid_t pid) {
        return fuse_process_call(pid) == SYS_pwrite64;
}

/* From then on, connections are not taken by the loop any more. */
static bool loop_waits(const DaemonFixture *daemon) {
        int call = fuse_process_call(daemon->pid);

        return call == SYS_madvise || call == SYS_fallocate;
}

/* Asks over a connection of its own, as tslabctl does. Who answers in the loop's place hangs up when that goes on. */
static int ask_stats(const DaemonFixture *daemon, ProtoReply **ret_reply) {
        _cleanup_(proto_reply_freep) ProtoReply *welcome = NULL;
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        ProtoHello hello = PROTO_HELLO_INIT;
        int r;

        r = proto_call_open(&call, daemon->socket, &hello, DAEMON_TIMEOUT_USEC, &welcome);
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        return r ?: proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, ret_reply, NULL);
}

static uint64_t page_wait(const DaemonFixture *daemon, char *ret_cause, size_t size) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        int r;

        WAIT_FOR((r = ask_stats(daemon, &reply)) != PROTO_E_CLOSED);
        assert_int_equal(r, 0);
        snprintf(ret_cause, size, "%s", reply->stats->page_wait_cause);
        return reply->stats->page_wait_seconds;
}

static uint64_t committed_size(const DaemonFixture *daemon) {
        ProtoCall *call = daemon_connect(daemon, 0);
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

        (void) proto_call_free(call);
        return reply->stats->committed_bytes;
}

static uint64_t live_objects(const DaemonFixture *daemon) {
        ProtoCall *call = daemon_connect(daemon, 0);
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

        (void) proto_call_free(call);
        return reply->stats->live_objects;
}

static int attach_error(const DaemonFixture *daemon) {
        ProtoCall *call = daemon_connect(daemon, PROTO_ROLE_WRITER);
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        int r, error;

        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        r = proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);
        error = r == PROTO_E_REFUSED ? reply->error : r;
        (void) proto_call_free(call);
        return error;
}

/* An operator whose request makes the loop ask for pages; *ret_errors: the stderr of tslabctl. */
static pid_t start_trim(const DaemonFixture *daemon, int *ret_errors) {
        int errors[2];
        pid_t pid;

        assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                end_with_parent();
                (void) dup2(errors[1], STDERR_FILENO);
                _exit(ctl_run(daemon, NULL, "trim"));
        }
        close(errors[1]);
        *ret_errors = errors[0];
        return pid;
}

/* tslabctl does not wait with the loop, and says why. */
static void expect_complaint(pid_t trim, int errors, const char *part) {
        char text[512] = "";
        int status;

        WAIT_FOR(waitpid(trim, &status, WNOHANG) == trim);
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_true(read(errors, text, sizeof(text) - 1) > 0);
        assert_non_null(strstr(text, part));
        close(errors);
}

static void make_objects(RawPool *pool, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(shm_object_alloc(&pool->client.actor, 768, 0, NULL, &pool->handles[i], NULL),
                                 0);
}

static void make_free_slabs(RawPool *pool) {
        uint64_t handle;

        make_objects(pool, N_OBJECTS);
        for (unsigned i = 0; i < N_OBJECTS; i++) {
                handle = pool->handles[i];
                assert_int_equal(shm_object_free(&pool->client.actor, handle), 0);
        }
}

static void test_page_wait(void **state) {
        RawPool *pool = *state;
        char cause[256], expected[64];
        pid_t holder, trim, decoy = 0;
        FuseMount fs = {};
        int status, errors;
        uint64_t committed, live;

        if (fuse_mount(&fs)) {
                decoy = start_decoy(&fs); /* it comes first in a list of processes */
                WAIT_FOR(fuse_process_call(decoy) == SYS_write);
        }
        make_free_slabs(pool);
        assert_int_equal(page_wait(&pool->daemon, cause, sizeof(cause)), 0);
        committed = committed_size(&pool->daemon);
        live = live_objects(&pool->daemon);
        holder = start_holder(pool);
        WAIT_FOR(is_writing(holder) || waitpid(holder, &status, WNOHANG) == holder);
        if (!is_writing(holder))
                fuse_end(&fs), skip(); /* no userfaultfd for this process */
        trim = start_trim(&pool->daemon, &errors);
        WAIT_FOR(loop_waits(&pool->daemon));

        WAIT_FOR(page_wait(&pool->daemon, cause, sizeof(cause)) > 0);
        snprintf(expected, sizeof(expected), "process %d (", (int) holder);
        assert_ptr_equal(strstr(cause, expected), cause);
        assert_non_null(strstr(cause, "is inside a write to the pool's memory"));
        assert_int_equal(ctl_run(&pool->daemon, NULL, "status", "--check"), 1);
        assert_int_equal(attach_error(&pool->daemon), -ETIMEDOUT);
        expect_complaint(trim, errors, expected);
        assert_true(committed_size(&pool->daemon) == committed);
        make_objects(pool, N_OBJECTS / 3);
        assert_int_equal(live_objects(&pool->daemon), live + N_OBJECTS / 3);

        /* The daemon goes on by itself. The verb that gave up asks for nothing any more. */
        assert_int_equal(kill(holder, SIGKILL), 0);
        assert_int_equal(waitpid(holder, &status, 0), holder);
        WAIT_FOR(page_wait(&pool->daemon, cause, sizeof(cause)) == 0);
        assert_int_equal(live_objects(&pool->daemon),
                         live + N_OBJECTS / 3); /* nothing was counted in its place */
        assert_int_equal(ctl_run(&pool->daemon, NULL, "trim"), 0);
        assert_true(committed_size(&pool->daemon) < committed);
        assert_string_equal(cause, "");
        assert_int_equal(ctl_run(&pool->daemon, NULL, "status", "--check"), 0);
        assert_int_equal(attach_error(&pool->daemon), 0);
        fuse_end(&fs);
        if (decoy > 0)
                assert_int_equal(waitpid(decoy, &status, 0), decoy);
}

/* The last daemon was killed inside a change of pages, which the next one undoes before it answers. */
static void test_start_beside_holder(void **state) {
        RawPool *pool = *state;
        char from[32], text[8192] = "", expected[64];
        pid_t holder;
        int status, log;

        snprintf(from, sizeof(from), "--adopt=%d", (int) getpid());
        daemon_kill(&pool->daemon);
        holder = start_holder(pool);
        WAIT_FOR(is_writing(holder) || waitpid(holder, &status, WNOHANG) == holder);
        if (!is_writing(holder)) {
                daemon_restart(&pool->daemon, (const char *[]){ "--size=32M", from, NULL });
                skip(); /* no userfaultfd for this process */
        }
        /* ORDER: rlx; there is no daemon. */
        shm_store_rlx(&shm_arena_record(&pool->client.arena, 0)->intent_what,
                      shm_intent_other(SHM_INTENT_RUN, 0, 1));
        log = daemon_restart_logged(&pool->daemon, (const char *[]){ "--size=32M", from, NULL });
        assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
        snprintf(expected, sizeof(expected), "lock of the pool's memory: process %d (", (int) holder);
        assert_non_null(strstr(text, expected));
        assert_non_null(strstr(text, "the daemon cannot begin before"));
        close(log);
        assert_int_equal(kill(holder, SIGKILL), 0);
        assert_int_equal(waitpid(holder, &status, 0), holder);
        assert_int_equal(ctl_run(&pool->daemon, NULL, "status", "--check"), 0);
}

static int setup(void **state) {
        *state = raw_pool_open((const char *[]){ "--size=32M", NULL }, N_OBJECTS);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_page_wait, setup, raw_pool_teardown),
                cmocka_unit_test_setup_teardown(test_start_beside_holder, setup, raw_pool_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
