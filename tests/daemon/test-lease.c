/* Epochs that end with the process that leased them, whichever daemon sees it die. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define N_OBJECTS 1000

typedef enum Op { LEASE, RESERVE, CHILD, CLOSE_POOL } Op;

typedef struct Answer {
        int64_t r;
        uint32_t epoch;
        uint64_t handles[N_OBJECTS];
} Answer;

/* ---- in the owner */

static int fill(struct tslab *pool, Answer *a) {
        for (int i = 0; i < N_OBJECTS; i++) {
                int r = tslab_alloc(pool, 256, a->epoch, &a->handles[i], NULL);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* It uses the epoch, and dies. */
static int child(struct tslab *pool, const Answer *a) {
        uint64_t handle;
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                if (tslab_alloc(pool, 256, a->epoch, &handle, NULL) == 0 && tslab_free(pool, handle) == 0)
                        kill(getpid(), SIGKILL);
                _exit(1);
        }
        return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? 0 : -ECHILD;
}

static int owner(const char *socket) {
        static Answer a;
        struct tslab *pool;
        Op op;

        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        while (role_read(&op, sizeof(op))) {
                switch (op) {
                case LEASE:
                case RESERVE:
                        a.r = op == LEASE ? tslab_epoch_lease(pool, "theirs", &a.epoch)
                                          : tslab_epoch_reserve(pool, "all", &a.epoch);
                        if (a.r == 0)
                                a.r = fill(pool, &a);
                        break;
                case CHILD:
                        a.r = child(pool, &a);
                        break;
                case CLOSE_POOL:
                        pool = tslab_close(pool);
                        break;
                }
                role_write(&a, sizeof(a));
        }
        (void) tslab_close(pool);
        return 0;
}

/* ---- in the test */

typedef struct Fixture {
        DaemonFixture daemon;
        RawClient self; /* the reader that goes on looking; its memory is adopted */
        Role owner;
        Answer a;
} Fixture;

static void ask(Fixture *f, Op op) {
        role_tell(&f->owner, &op, sizeof(op));
        role_hear(&f->owner, &f->a, sizeof(f->a));
        assert_int_equal(f->a.r, 0);
}

static int setup(void **state) {
        static Fixture fixture;
        Fixture *f = &fixture;

        daemon_start(&f->daemon, (const char *[]){ "--size=16M", "--epochs=4", "--log-level=err", NULL });
        raw_client_open(&f->self, &f->daemon, 0);
        role_start(&f->owner, "owner", f->daemon.socket);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        if (f->owner.pid != 0)
                assert_int_equal(role_wait(&f->owner), 0);
        ctl_check(&f->daemon);
        raw_client_close(&f->self);
        daemon_stop(&f->daemon);
        return 0;
}

static void kill_owner(Fixture *f) {
        assert_int_equal(kill(f->owner.pid, SIGKILL), 0);
        assert_int_equal(role_wait(&f->owner), -SIGKILL);
}

static void adopt(Fixture *f) {
        char from[32];

        snprintf(from, sizeof(from), "--adopt=%d", (int) getpid());
        daemon_restart(&f->daemon,
                       (const char *[]){ "--size=16M", "--epochs=4", "--log-level=err", from, NULL });
}

static uint32_t n_live(const Fixture *f) {
        uint32_t n = 0;

        for (int i = 0; i < N_OBJECTS; i++)
                n += shm_object_live(&f->self.arena, f->a.handles[i]);
        return n;
}

static int owner_pid(const Fixture *f) {
        char id[8];

        snprintf(id, sizeof(id), "%u", f->a.epoch & 0xff);
        return (int) ctl_stat(&f->daemon, "epochs", id, "owner_pid");
}

static bool is_drained(const Fixture *f) {
        ShmEpochInfo info;

        return shm_epoch_get(&f->self.arena, f->a.epoch & 0xff, &info) == 0 &&
               info.state == SHM_EPOCH_DRAINED && !(info.flags & SHM_EPOCH_REVOKE) && info.owner == 0;
}

static void check_revoked(const Fixture *f) {
        WAIT_FOR(is_drained(f));
        assert_int_equal(n_live(f), 0);
        assert_int_equal(owner_pid(f), 0);
}

static void test_lease_ends_with_death(void **state) {
        Fixture *f = *state;

        /* More often than there are epochs to be had. */
        for (int i = 0; i < 6; i++) {
                ask(f, LEASE);
                assert_int_equal(owner_pid(f), f->owner.pid);
                assert_int_equal(n_live(f), N_OBJECTS);
                kill_owner(f);
                check_revoked(f);
                role_start(&f->owner, "owner", f->daemon.socket);
        }
}

static void test_lease_ends_with_close_of_pool(void **state) {
        Fixture *f = *state;

        ask(f, LEASE);
        ask(f, CLOSE_POOL);
        check_revoked(f);
        kill_owner(f);
}

static void test_lease_stays_the_parents(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(&f->daemon, 0);

        ask(f, LEASE);
        ask(f, CHILD);
        WAIT_FOR(daemon_n_clients(control) == 2);
        assert_int_equal(n_live(f), N_OBJECTS);
        assert_int_equal(owner_pid(f), f->owner.pid);
        kill_owner(f);
        check_revoked(f);
}

/* The owner goes on through the death of daemons; then it dies while there is none. */
static void test_lease_outlasts_daemons(void **state) {
        Fixture *f = *state;

        ask(f, LEASE);
        for (int i = 0; i < 3; i++) {
                daemon_kill(&f->daemon);
                adopt(f);
                assert_int_equal(owner_pid(f), f->owner.pid);
                assert_int_equal(n_live(f), N_OBJECTS);
        }
        daemon_kill(&f->daemon);
        kill_owner(f);
        assert_int_equal(n_live(f), N_OBJECTS);
        adopt(f);
        check_revoked(f);
}

/* The daemon died between the announcement of a revocation and the revocation. */
static void test_revoking_is_resumed(void **state) {
        Fixture *f = *state;

        ask(f, RESERVE);
        daemon_kill(&f->daemon);
        assert_int_equal(shm_epoch_revoke(&f->self.arena, f->a.epoch, false), 0);
        adopt(f);
        check_revoked(f);
}

static void test_reserved_is_not_leased(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(&f->daemon, 0);

        ask(f, RESERVE);
        assert_int_equal(owner_pid(f), 0);
        kill_owner(f);
        WAIT_FOR(daemon_n_clients(control) == 1);
        assert_int_equal(n_live(f), N_OBJECTS);
        for (int i = 0; i < N_OBJECTS; i++)
                assert_int_equal(shm_object_free(&f->self.actor, f->a.handles[i]), 0);
}

/* Somebody has to be there to own it. */
static void test_lease_wants_a_client(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(&f->daemon, 0);
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;

        body.lease = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        assert_int_equal(proto_call(control, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL),
                         PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EINVAL);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_lease_ends_with_death, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lease_ends_with_close_of_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lease_stays_the_parents, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lease_outlasts_daemons, setup, teardown),
                cmocka_unit_test_setup_teardown(test_revoking_is_resumed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reserved_is_not_leased, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lease_wants_a_client, setup, teardown),
        };

        if (argc == 3)
                return owner(argv[2]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
