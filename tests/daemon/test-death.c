/* Clients that die, and those that only hang up. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/client.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

typedef enum Way { IDLE, INSIDE, WITH_INTENT, HUNG_UP } Way;

static void attach_and_stay(const DaemonFixture *daemon, Way way, int ready_fd) {
        RawClient client;
        uint64_t handle;
        void *object;

        raw_client_open(&client, daemon, 0);
        assert_int_equal(shm_object_alloc(&client.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        if (way == INSIDE)
                shm_actor_enter(&client.actor);
        if (way == WITH_INTENT)
                shm_actor_intend(&client.actor, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
        if (way == HUNG_UP)
                client.call = proto_call_free(client.call);
        assert_int_equal(write(ready_fd, &handle, sizeof(handle)), sizeof(handle));
        for (;;)
                pause();
}

static pid_t start_client(const DaemonFixture *daemon, Way way, uint64_t *ret_handle) {
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                close(fds[0]);
                alarm(30);
                attach_and_stay(daemon, way, fds[1]);
        }
        close(fds[1]);
        assert_int_equal(read(fds[0], ret_handle, sizeof(*ret_handle)), sizeof(*ret_handle));
        close(fds[0]);
        return pid;
}

static void end_client(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* What it shared stays; its entry and its record go. */
static void check_death(DaemonFixture *daemon, Way way) {
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient reader;
        uint64_t handle;
        pid_t pid;

        raw_client_open(&reader, daemon, PROTO_ROLE_READER);
        WAIT_FOR(daemon_n_clients(control) == 1);
        pid = start_client(daemon, way, &handle);
        assert_int_equal(daemon_n_clients(control), 2);
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 1);
        assert_true(shm_object_live(&reader.arena, handle));
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

                assert_int_equal(reply->stats->threads, 0);
        }
        raw_client_close(&reader);
}

static void test_death(void **state) {
        check_death(*state, IDLE);
}

static void test_death_inside(void **state) {
        check_death(*state, INSIDE);
}

static void test_death_after_hang_up(void **state) {
        check_death(*state, HUNG_UP);
}

/* Stopped, and not connected, is alive. */
static void test_stopped(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        uint64_t handle;
        pid_t pid;

        WAIT_FOR(daemon_n_clients(control) == 0);
        pid = start_client(daemon, HUNG_UP, &handle);
        assert_int_equal(kill(pid, SIGSTOP), 0);
        usleep(1200000); /* a tick */
        assert_int_equal(daemon_n_clients(control), 1);
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 0);
}

/* What its record names is for repair to settle: until then entry and record stay. */
static void test_death_with_intent(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient other;
        uint64_t handle;
        pid_t pid;

        raw_client_open(&other, daemon, 0);
        pid = start_client(daemon, WITH_INTENT, &handle);
        end_client(pid);
        WAIT_FOR(shm_record_owner(&other.arena, 2).state == SHM_RECORD_DEAD);
        assert_int_equal(daemon_n_clients(control), 2);
        raw_client_close(&other);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_death),
                cmocka_unit_test(test_death_inside),
                cmocka_unit_test(test_death_after_hang_up),
                cmocka_unit_test(test_stopped),
                cmocka_unit_test(test_death_with_intent), /* last: it leaves an entry */
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
