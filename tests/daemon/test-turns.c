/* The daemon serves users in turn: many connections of one user do not make another user wait for all of them. */
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/epoch/epoch.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_GREEDY 200U
#define N_OTHERS 5U
#define GREEDY 65534U
#define OTHER 65533U
#define N_BEFORE_MAX 20U /* requests of the greedy user that may be served before that of the other */

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--mode=0666", "--log-level=err", NULL });
        assert_int_equal(chmod(daemon.dir, 0755), 0);
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

static ProtoCall *connect_as(const DaemonFixture *daemon, uid_t uid) {
        ProtoCall *call;

        assert_int_equal(seteuid(uid), 0);
        call = daemon_connect(daemon, PROTO_ROLE_WRITER);
        assert_int_equal(seteuid(0), 0);
        return call;
}

static void send_advance(ProtoCall *call) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance advance = TSLAB__EPOCH_ADVANCE__INIT;

        request.id = 2;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &advance;
        assert_int_equal(proto_request_send(proto_call_fd(call), &request, NULL, 0, NULL), 0);
}

/* The number of the epoch that the advance opened, counted from the first. */
static uint32_t hear_advance(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        struct pollfd p = { .fd = proto_call_fd(call), .events = POLLIN };
        ProtoFds fds;
        uint32_t epoch;

        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(proto_reply_receive(p.fd, &reply, &fds), 0);
        assert_int_equal(reply->error, 0);
        epoch = reply->epoch_advance->epoch;
        /* Epoch 0:1 is open at first, and each later lap over the 16 ids begins with id 1. */
        return (epoch & 0xff) == 0 ? (epoch >> 8) * 16 : ((epoch >> 8) - 1) * 16 + (epoch & 0xff);
}

static bool is_other(unsigned i) {
        return i % (N_GREEDY / (N_OTHERS - 1) + 1) == 0;
}

static ProtoCall **connection_at(ProtoCall **greedy, ProtoCall **others, unsigned i) {
        unsigned n_others = i / (N_GREEDY / (N_OTHERS - 1) + 1);

        return is_other(i) ? &others[n_others] : &greedy[i - n_others - 1];
}

/* Each advance opens the next epoch, so its number says when it was served. */
static void test_users_take_turns(void **state) {
        const DaemonFixture *daemon = *state;
        static ProtoCall *greedy[N_GREEDY];
        static ProtoCall
                *others[N_OTHERS]; /* connected, and asking, before, between and after the greedy ones */
        uint32_t before;

        if (geteuid() != 0)
                skip();
        for (unsigned i = 0; i < N_GREEDY + N_OTHERS; i++)
                *connection_at(greedy, others, i) = connect_as(daemon, is_other(i) ? OTHER : GREEDY);
        send_advance(others[0]);
        before = hear_advance(others[0]);

        daemon_hold(daemon);
        for (unsigned i = 0; i < N_GREEDY + N_OTHERS; i++)
                send_advance(*connection_at(greedy, others, i));
        daemon_release(daemon);
        for (unsigned i = 0; i < N_OTHERS; i++) {
                assert_in_range(hear_advance(others[i]) - before, 1, N_BEFORE_MAX);
                (void) proto_call_free(others[i]);
        }
        for (unsigned i = 0; i < N_GREEDY; i++) {
                assert_in_range(hear_advance(greedy[i]) - before, 1, N_GREEDY + N_OTHERS);
                (void) proto_call_free(greedy[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_users_take_turns),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
