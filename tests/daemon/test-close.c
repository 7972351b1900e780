/* Closing and advancing epochs in a pool with objects. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache-hit.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N 12288U /* objects of 512 bytes: 1536 slabs of 2048 */
#define FALL                                                                                                 \
        (800U *                                                                                              \
         SHM_SLAB_SIZE) /* fall of the memory in use: the reserve keeps at most a quarter of a pool's slabs */

static int setup(void **state) {
        *state = raw_pool_open(
                (const char *[]){ "--size=8M", "--retain=0", "--epochs=4", "--log-level=warning", NULL }, N);
        return 0;
}

static void fill(RawPool *pool, uint32_t epoch) {
        void *object;

        for (size_t i = 0; i < N; i++) {
                assert_int_equal(
                        shm_object_alloc(&pool->client.actor, 512, epoch, NULL, &pool->handles[i], &object),
                        0);
                *(volatile char *) object = 1;
        }
}

static void empty(RawPool *pool, size_t from, size_t step) {
        for (size_t i = from; i < N; i += step)
                assert_int_equal(shm_object_free(&pool->client.actor, pool->handles[i]), 0);
}

static uint64_t committed(RawPool *pool, uint64_t *ret_blocks) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(pool->client.call);

        *ret_blocks = reply->stats->memfd_blocks_bytes;
        return reply->stats->committed_bytes;
}

static Tslab__EpochState epoch_state(RawPool *pool, uint32_t id, uint64_t *ret_reclaimed) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(pool->client.call);

        *ret_reclaimed = reply->stats->epochs[id]->reclaimed_bytes;
        return reply->stats->epochs[id]->state;
}

/* All freed before: nothing of it is left when close returns. */
static void test_close_freed(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        uint64_t full, full_blocks, after, after_blocks;

        fill(pool, 0);
        full = committed(pool, &full_blocks);
        assert_true(full >= N * 512);
        empty(pool, 0, 1);
        (void) daemon_advance(pool->client.call);
        reply = daemon_close(pool->client.call, 0);
        assert_int_equal(reply->epoch_close->live_objects, 0);
        assert_int_equal(reply->epoch_close->pending_threads, 0);
        assert_true(reply->epoch_close->reclaimed_bytes >= N * 512);
        after = committed(pool, &after_blocks);
        assert_true(after + FALL <= full);
        assert_true(after_blocks + FALL <= full_blocks);
}

/* Objects live on, can be freed after, and their slabs then go by themselves. */
static void test_close_live(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        uint64_t handle, reclaimed, blocks, before, after;
        void *object;

        fill(pool, 0);
        empty(pool, 0, 2);
        reply = daemon_close(pool->client.call, 0);
        assert_int_equal(reply->epoch_close->live_objects, N / 2);
        assert_int_equal(reply->epoch_close->n_classes, 1);
        assert_int_equal(reply->epoch_close->classes[0]->size, 512);
        assert_int_equal(reply->epoch_close->classes[0]->live_objects, N / 2);
        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 0, NULL, &handle, &object), -ESHUTDOWN);
        assert_true(shm_object_live(&pool->client.arena, pool->handles[1]));
        assert_int_equal(epoch_state(pool, 0, &reclaimed), TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING);

        before = committed(pool, &blocks);
        empty(pool, 1, 2);
        WAIT_FOR(epoch_state(pool, 0, &reclaimed) == TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED);
        assert_true(reclaimed >= N * 512);
        after = committed(pool, &blocks);
        assert_true(after < before);
}

static int count_progress(void *userdata, const ProtoReply *reply) {
        RawClient *client = ((void **) userdata)[0];
        uint64_t *handles = ((void **) userdata)[1];

        assert_true(reply->more);
        assert_non_null(reply->progress);
        if (*handles != 0) {
                assert_int_equal(shm_object_free(&client->actor, *handles), 0);
                *handles = 0;
        }
        return 0;
}

/* wait_drained answers when the last object is gone; here it goes after the first progress. */
static void test_close_wait_drained(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t handle;
        void *object;

        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 1, NULL, &handle, &object), 0);
        body.epoch = 1;
        body.wait_drained = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        assert_int_equal(proto_call(pool->client.call, &request, DAEMON_TIMEOUT_USEC, count_progress,
                                    (void *[]){ &pool->client, &handle }, &reply, NULL),
                         0);
        assert_int_equal(handle, 0);
        assert_int_equal(reply->epoch_close->live_objects, 0);
        assert_int_equal(reply->epoch_close->reclaimed_bytes, SHM_SLAB_SIZE);
}

static void test_close_wait_drained_timeout(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t handle;
        void *object;

        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 1, NULL, &handle, &object), 0);
        body.epoch = 1;
        body.wait_drained = true;
        body.wait_msec = 1;
        body.wait_drained_msec = 50;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        reply = daemon_call(pool->client.call, &request, NULL);
        assert_int_equal(reply->epoch_close->live_objects, 1);
}

/* Closing waits for objects of the era that was closed, and counts them: earlier eras are nobody's business. */
static void test_close_beside_older(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL, *older = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t earlier, handle;

        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 0, NULL, &earlier, NULL), 0);
        for (int i = 0; i < 4; i++)
                (void) daemon_advance(pool->client.call);
        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 0, NULL, &handle, NULL), 0);
        body.epoch = 0 | 2 << 8;
        body.wait_drained = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        assert_int_equal(proto_call(pool->client.call, &request, DAEMON_TIMEOUT_USEC, count_progress,
                                    (void *[]){ &pool->client, &handle }, &reply, NULL),
                         0);
        assert_int_equal(handle, 0);
        assert_int_equal(reply->epoch_close->live_objects, 0);
        assert_true(shm_object_live(&pool->client.arena, earlier));
        body.revoke = body.older = true;
        older = daemon_call(pool->client.call, &request, NULL);
        assert_int_equal(older->epoch_close->live_objects, 0);
        assert_false(shm_object_live(&pool->client.arena, earlier));
}

/* Slots in a thread's cache do not keep a slab: close takes them away. */
static void test_close_cached(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL, *stats = NULL;
        uint64_t reclaimed;

        pool->client.actor.mode = SHM_CACHE_ON;
        fill(pool, 1);
        empty(pool, 0, 1);
        stats = daemon_stats(pool->client.call);
        assert_int_not_equal(stats->stats->cached_objects, 0);
        reply = daemon_close(pool->client.call, 1);
        assert_int_equal(reply->epoch_close->live_objects, 0);
        assert_int_equal(reply->epoch_close->pending_threads, 0);
        assert_int_equal(epoch_state(pool, 1, &reclaimed), TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED);
        stats = proto_reply_free(stats);
        stats = daemon_stats(pool->client.call);
        assert_int_equal(stats->stats->cached_objects, 0);
}

/* A thread that ends while it is frozen leaves its record to the daemon, also when that thaws it just then. */
static void test_close_left(void **state) {
        RawPool *pool = *state;
        ShmActor other;
        uint32_t id;

        assert_int_equal(shm_actor_init(&other, &pool->client.arena, pool->client.client, 1), 0);
        id = other.id;
        shm_actor_enter(&other);
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_close(pool->client.call, 1);

                assert_int_equal(reply->epoch_close->pending_threads, 1);
        }
        shm_actor_leave(&other);
        WAIT_FOR(!(shm_load_rlx(&shm_arena_record(&pool->client.arena, id)->attention) &
                   SHM_ATTENTION_FREEZE));
        shm_record_set_left(&pool->client.arena, id);
        WAIT_FOR(shm_record_owner(&pool->client.arena, id).state == SHM_RECORD_UNUSED);
}

/* A thread that stands still inside an operation is reported, waited for no longer than asked, and drained after. */
static void test_close_pending(void **state) {
        RawPool *pool = *state;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL, *again = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        ShmActor other;
        uint64_t start, reclaimed, mask;

        assert_int_equal(shm_actor_init(&other, &pool->client.arena, pool->client.client, 1), 0);
        shm_actor_enter(&other);
        body.epoch = 1;
        body.wait_msec = 60;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        start = proto_now_usec();
        reply = daemon_call(pool->client.call, &request, NULL);
        assert_int_equal(reply->epoch_close->pending_threads, 1);
        assert_true(proto_now_usec() - start >= 60000);

        /* It adds a slab to the epoch that it saw open, then moves on: a walk finds it. */
        WAIT_FOR(shm_set_has(&pool->client.arena, SHM_SET_FREE, 0));
        assert_int_equal(shm_slab_claim(&other, 0, slab_key(0, 1, 1), 1, &mask), 0);
        assert_int_equal(shm_slab_free_slots(&other, 0, mask), 0);
        shm_actor_intend(&other, 0);
        shm_actor_leave(&other);
        WAIT_FOR(epoch_state(pool, 1, &reclaimed) == TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED &&
                 reclaimed > 0);
        again = daemon_close(pool->client.call, 1);
        assert_int_equal(again->epoch_close->pending_threads, 0);
        shm_actor_deinit(&other);
}

/* Round the ring twice: older eras drain while the id is open again. */
static void test_advance_ring(void **state) {
        RawPool *pool = *state;
        uint64_t handle, reclaimed;
        void *object;

        assert_int_equal(shm_object_alloc(&pool->client.actor, 64, 0, NULL, &handle, &object), 0);
        for (uint32_t i = 1; i < 9; i++)
                assert_int_equal(daemon_advance(pool->client.call) & 0xff, i % 4);
        assert_true(shm_object_live(&pool->client.arena, handle));
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(pool->client.call);

                assert_int_equal(reply->stats->epochs[0]->older->live_objects, 1);
                assert_int_equal(reply->stats->epochs[0]->state, TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN);
                assert_true(reply->stats->epochs[0]->current);
        }
        assert_int_equal(shm_object_free(&pool->client.actor, handle), 0);
        WAIT_FOR(shm_slab_word(&pool->client.arena, slot_id_slab(shm_handle_slot(handle))).high % 16 !=
                 SLAB_DRAINING);
        WAIT_FOR(epoch_state(pool, 0, &reclaimed) == TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN && reclaimed > 0);
}

static bool is_taken(const ShmArena *arena, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);

        return shm_slab_word(arena, slot_id_slab(id)).low & slot_id_mask(id);
}

/* A thread that is allocating as the epoch is revoked: its object is stale at once, its slot goes back later. */
static void test_close_revoke(void **state) {
        RawPool *pool = *state;
        ShmActor *actor = &pool->client.actor;
        ShmArena *arena = &pool->client.arena;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t handles[100], reclaimed;

        for (int i = 0; i < 100; i++)
                assert_int_equal(shm_object_alloc(actor, 700, 1, NULL, &handles[i], NULL), 0);
        shm_actor_enter(actor);
        shm_actor_intend(
                actor, shm_intent_take(shm_handle_tag(arena->key, handles[0]), shm_handle_slot(handles[0])));
        body.epoch = 1;
        body.revoke = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply =
                        daemon_call(pool->client.call, &request, NULL);

                assert_int_equal(reply->epoch_close->live_objects, 0);
                assert_int_equal(reply->epoch_close->pending_threads, 1);
                assert_true(reply->epoch_close->reclaimed_bytes >= 18 * SHM_SLAB_SIZE);
        }
        for (int i = 0; i < 100; i++)
                assert_false(shm_object_live(arena, handles[i]));
        assert_true(is_taken(arena, handles[0]));
        assert_int_equal(epoch_state(pool, 1, &reclaimed), TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING);
        shm_actor_intend(actor, 0);
        shm_actor_leave(actor);
        WAIT_FOR(!is_taken(arena, handles[0]));
        WAIT_FOR(epoch_state(pool, 1, &reclaimed) == TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED);
}

static void test_close_errors(void **state) {
        RawPool *pool = *state;
        static const struct {
                uint32_t epoch;
                bool revoke;
                int error;
        } cases[] = {
                { 9, false, -EINVAL },
                { 1 | 77 << 8, true, -ESTALE },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                ProtoRequest request = PROTO_REQUEST_INIT;
                Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

                body.epoch = cases[i].epoch;
                body.revoke = cases[i].revoke;
                request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
                request.epoch_close = &body;
                assert_int_equal(proto_call(pool->client.call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL,
                                            &reply, NULL),
                                 PROTO_E_REFUSED);
                assert_int_equal(reply->error, cases[i].error);
        }
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, raw_pool_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_close_revoke),
                TEST(test_close_freed),
                TEST(test_close_live),
                TEST(test_close_wait_drained),
                TEST(test_close_wait_drained_timeout),
                TEST(test_close_beside_older),
                TEST(test_close_cached),
                TEST(test_close_left),
                TEST(test_close_pending),
                TEST(test_advance_ring),
                TEST(test_close_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
