/* Whoever closes an epoch and waits: what becomes of it when he goes, or when a thread stands still. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "shm/epoch.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_CLOSINGS 8U /* as many as a connection may have under way */
#define N_OBJECTS 100U
#define DAY_MSEC 86400000U

typedef struct Pool {
        DaemonFixture daemon;
        RawClient client;
        uint64_t handles[N_OBJECTS]; /* in epoch 1 */
} Pool;

static int setup(void **state) {
        static Pool pool;

        daemon_start(&pool.daemon, (const char *[]){ "--size=16M", "--epochs=4", "--log-level=err", NULL });
        raw_client_open(&pool.client, &pool.daemon, 0);
        for (unsigned i = 0; i < N_OBJECTS; i++)
                assert_int_equal(shm_object_alloc(&pool.client.actor, 700, 1, NULL, &pool.handles[i], NULL),
                                 0);
        *state = &pool;
        return 0;
}

static int teardown(void **state) {
        Pool *pool = *state;

        raw_client_close(&pool->client);
        daemon_stop(&pool->daemon);
        return 0;
}

/* A connection on which hello was said. */
static int connect_raw(const Pool *pool) {
        ProtoCall *call = daemon_connect(&pool->daemon, 0);
        int fd = dup(proto_call_fd(call));

        assert_true(fd >= 0);
        (void) proto_call_free(call);
        return fd;
}

static void send_close(int fd, uint64_t id, Tslab__EpochClose *body) {
        ProtoRequest request = PROTO_REQUEST_INIT;

        request.id = id;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = body;
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
}

static int start_watch(const Pool *pool) {
        int fd = connect_raw(pool);
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Watch watch = TSLAB__WATCH__INIT;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_WATCH;
        request.watch = &watch;
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
        return fd;
}

static ProtoReply *receive(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ProtoReply *reply = NULL;
        ProtoFds fds;

        assert_int_equal(poll(&p, 1, 10000), 1);
        assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
        return reply;
}

/* Each closing says so at its end. */
static void expect_reclaims(int watch, unsigned n) {
        while (n > 0) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = receive(watch);

                if (reply->body_case == TSLAB__REPLY__BODY_WATCH)
                        n -= strcmp(reply->watch->event->kind, "reclaim") == 0;
        }
}

/* All are under way, and do not end while somebody waits; then he goes. */
static void close_and_go(const Pool *pool, Tslab__EpochClose *body) {
        int fd = connect_raw(pool);

        for (uint64_t i = 1; i <= N_CLOSINGS; i++)
                send_close(fd, i, body);
        for (unsigned seen = 0; seen != (1 << N_CLOSINGS) - 1;) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = receive(fd);

                assert_true(reply->more);
                seen |= 1U << (reply->id - 1);
        }
        close(fd);
}

/* The objects stay; those who wait for their end do not. */
static void test_gone_objects(void **state) {
        Pool *pool = *state;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        int watch = start_watch(pool);

        body.epoch = 1;
        body.wait_drained = true;
        close_and_go(pool, &body);
        expect_reclaims(watch, N_CLOSINGS);
        assert_true(shm_object_live(&pool->client.arena, pool->handles[0]));
        close(watch);
}

/* The same for a thread that stands still inside an operation. */
static void test_gone_thread(void **state) {
        Pool *pool = *state;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        int watch = start_watch(pool);

        shm_actor_enter(&pool->client.actor);
        body.epoch = 1;
        body.wait_msec = DAY_MSEC;
        close_and_go(pool, &body);
        expect_reclaims(watch, N_CLOSINGS);
        shm_actor_leave(&pool->client.actor);
        close(watch);
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_gone_objects),
                TEST(test_gone_thread),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
