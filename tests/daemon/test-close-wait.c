/* Closing an epoch and waiting: the client that asked goes away, or a thread stands still. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/format/handle.h"
#include "shm/format/intent.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_CLOSINGS 8U /* as many as a connection may have under way */
#define N_OBJECTS 100U
#define DAY_MSEC 86400000U

static int setup(void **state) {
        RawPool *pool = raw_pool_open((const char *[]){ "--size=16M", "--epochs=4", "--log-level=err", NULL },
                                      N_OBJECTS);

        for (unsigned i = 0; i < N_OBJECTS; i++) /* in epoch 1 */
                assert_int_equal(shm_object_alloc(&pool->client.actor, 700, 1, NULL, &pool->handles[i], NULL),
                                 0);
        *state = pool;
        return 0;
}

/* A connection on which hello was said. */
static int connect_raw(const RawPool *pool) {
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

static int start_watch(const RawPool *pool) {
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

        assert_int_equal(poll(&p, 1, 60000), 1);
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
static void close_and_go(const RawPool *pool, Tslab__EpochClose *body) {
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

/* The objects stay; the clients that wait for their end go. */
static void test_gone_objects(void **state) {
        RawPool *pool = *state;
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
        RawPool *pool = *state;
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

static unsigned n_live(const RawPool *pool) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_OBJECTS; i++)
                n += shm_object_live(&pool->client.arena, pool->handles[i]);
        return n;
}

/* Slots that were not given back. */
static unsigned n_taken(const RawPool *pool) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_OBJECTS; i++) {
                SlotId id = shm_handle_slot(pool->handles[i]);

                n += (shm_slab_word(&pool->client.arena, slot_id_slab(id)).low & slot_id_mask(id)) != 0;
        }
        return n;
}

/* Stands still in the middle of an allocation, and as somebody revokes the epoch. */
static int revoke_under(RawPool *pool, uint32_t wait_msec, bool wait_drained) {
        const ShmArena *arena = &pool->client.arena;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        int fd = connect_raw(pool);

        shm_actor_enter(&pool->client.actor);
        shm_actor_intend(&pool->client.actor, shm_intent_take(shm_handle_tag(arena->key, pool->handles[0]),
                                                              shm_handle_slot(pool->handles[0])));
        body.epoch = 1;
        body.revoke = true;
        body.wait_msec = wait_msec;
        body.wait_drained = wait_drained;
        send_close(fd, 1, &body);
        WAIT_FOR(n_live(pool) == 0 && n_taken(pool) == 1);
        return fd;
}

static void go_on(RawPool *pool) {
        shm_actor_intend(&pool->client.actor, 0);
        shm_actor_leave(&pool->client.actor);
}

static void expect_answer(int fd) {
        uint64_t deadline = proto_deadline(DAEMON_TIMEOUT_USEC);
        bool more = true;

        while (more) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = receive(fd);

                assert_true(proto_deadline_left(deadline) > 0);
                more = reply->more;
                if (more)
                        continue;
                assert_int_equal(reply->body_case, TSLAB__REPLY__BODY_EPOCH_CLOSE);
                assert_int_equal(reply->epoch_close->live_objects, 0);
                assert_int_equal(reply->epoch_close->pending_threads, 0);
        }
        close(fd);
}

/* All objects are stale long before the thread goes on, and the slot that it has in hand goes back when it does. */
static void test_revoke(void **state) {
        int fd = revoke_under(*state, DAY_MSEC, true);

        assert_int_equal(n_taken(*state), 1);
        go_on(*state);
        expect_answer(fd);
        assert_int_equal(n_taken(*state), 0);
}

/* The answer is of all objects, though only threads are waited for. */
static void test_revoke_threads(void **state) {
        int fd = revoke_under(*state, DAY_MSEC, false);

        go_on(*state);
        expect_answer(fd);
        assert_int_equal(n_taken(*state), 0);
}

/* Threads are hardly waited for, objects for ever. */
static void test_revoke_objects(void **state) {
        int fd = revoke_under(*state, 1, true);

        go_on(*state);
        expect_answer(fd);
        assert_int_equal(n_taken(*state), 0);
}

/* The slot goes back when the thread goes on, whether or not anybody waits. */
static void test_revoke_gone(void **state) {
        RawPool *pool = *state;
        int watch = start_watch(pool), fd = revoke_under(pool, DAY_MSEC, true);

        close(fd);
        expect_reclaims(watch, 1);
        assert_int_equal(n_taken(pool), 1);
        go_on(pool);
        WAIT_FOR(n_taken(pool) == 0);
        close(watch);
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, raw_pool_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_gone_objects),   TEST(test_gone_thread),    TEST(test_revoke),
                TEST(test_revoke_threads), TEST(test_revoke_objects), TEST(test_revoke_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
