/*
 * A client that says for ever that it has slots of a revoked epoch in hand. Their handles are stale at once, and
 * the daemon keeps the slots. It looks at them again and again, though not as fast as it can.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache.h"
#include "shm/epoch/epoch.h"
#include "shm/format/handle.h"
#include "shm/format/intent.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_OBJECTS 20U
#define N_TURNS 4000U /* turns of the daemon's loop, at least */
#define REVOKED_AGAIN_MAX 100U /* in these. With rests it is one a second, after some that are sooner */
#define N_CLOSINGS 500U

typedef struct Liar {
        RawClient client;
        uint64_t handles[N_OBJECTS];
        uint32_t epoch; /* with its era */
        uint32_t stop; /* the thread */
        pthread_t thread;
} Liar;

static int log_fd; /* the daemon's output */

static int setup_epochs(void **state, const char *epochs) {
        static DaemonFixture daemon;

        log_fd = daemon_start_logged(&daemon,
                                     (const char *[]){ "--size=16M", epochs, "--log-level=debug", NULL });
        *state = &daemon;
        return 0;
}

static int setup(void **state) {
        return setup_epochs(state, "--epochs=4");
}

/* With no other id to advance to than the one before. */
static int setup_few(void **state) {
        return setup_epochs(state, "--epochs=2");
}

static int teardown(void **state) {
        daemon_stop(*state);
        close(log_fd);
        return 0;
}

static void liar_open(Liar *liar, const DaemonFixture *daemon) {
        *liar = (Liar){};
        raw_client_open(&liar->client, daemon, 0);
        liar->epoch = shm_epoch_current(&liar->client.arena);
        for (unsigned i = 0; i < N_OBJECTS; i++)
                assert_int_equal(shm_object_alloc(&liar->client.actor, 64, SHM_EPOCH_CURRENT, NULL,
                                                  &liar->handles[i], NULL),
                                 0);
        (void) daemon_advance(liar->client.call);
}

static SlotId slot_of(const Liar *liar, unsigned i) {
        return shm_handle_slot(liar->handles[i]);
}

/* From the daemon's messages. */
static unsigned n_revoked_again(void) {
        unsigned n = 0;
        char *text;
        off_t size = lseek(log_fd, 0, SEEK_END);

        text = calloc(1, (size_t) size + 1);
        assert_non_null(text);
        assert_int_equal(pread(log_fd, text, (size_t) size, 0), size);
        for (const char *at = text; (at = strstr(at, " was revoked again")); at++)
                n++;
        free(text);
        return n;
}

/* The epoch of one era. The daemon answers within ten seconds. */
static void revoke_era(const Liar *liar, uint32_t epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.revoke = true;
        body.wait_msec = 1;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        reply = daemon_call(liar->client.call, &request, NULL);
}

static void expect_rarely_revoked(const Liar *liar) {
        uint64_t begin = proto_now_usec(), n_seconds;
        unsigned before = n_revoked_again(), n;

        for (unsigned i = 0; i < N_TURNS; i++)
                (void) daemon_n_clients(liar->client.call);
        n = n_revoked_again() - before;
        n_seconds = (proto_now_usec() - begin) / PROTO_USEC_PER_SEC;
        if (n > REVOKED_AGAIN_MAX + n_seconds)
                print_error("revoked again %u times in %u turns\n", n, N_TURNS);
        assert_true(n <= REVOKED_AGAIN_MAX + n_seconds);
}

static bool is_live(const Liar *liar, uint64_t handle) {
        return shm_object_live(&liar->client.arena, handle);
}

static bool all_stale(const Liar *liar) {
        for (unsigned i = 0; i < N_OBJECTS; i++)
                if (is_live(liar, liar->handles[i]))
                        return false;
        return true;
}

/* Its slot was not given back. */
static bool is_kept(const Liar *liar, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);

        return shm_slab_word(&liar->client.arena, slot_id_slab(id)).low & slot_id_mask(id);
}

static unsigned n_kept(const Liar *liar) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_OBJECTS; i++)
                n += is_kept(liar, liar->handles[i]);
        return n;
}

/* The daemon looks again at a record that stopped lying. */
static void expect_end(Liar *liar) {
        ShmEpochInfo info;

        WAIT_FOR(shm_epoch_get(&liar->client.arena, liar->epoch & 0xff, &info) == 0 && !info.revoking);
        raw_client_close(&liar->client);
}

static void set_intent(const Liar *liar, uint64_t what) {
        /* ORDER: rlx; no thread of ours is in an operation. */
        shm_store_rlx(&liar->client.actor.record->intent_what, what);
}

/* That of an allocation, of which all is done. */
static void test_intent(void **state) {
        Liar liar;

        liar_open(&liar, *state);
        set_intent(&liar, shm_intent_take(0, slot_of(&liar, 0)));
        revoke_era(&liar, liar.epoch);
        assert_true(all_stale(&liar));
        assert_int_equal(n_kept(&liar), 1);
        expect_rarely_revoked(&liar);
        assert_true(is_kept(&liar, liar.handles[0]));
        set_intent(&liar, 0);
        WAIT_FOR(n_kept(&liar) == 0);
        expect_end(&liar);
}

/* Not while it is frozen: the daemon would take cached slots for free ones, and give them back. */
static void *lie_in_cache(void *userdata) {
        Liar *liar = userdata;
        ShmRecord *record = liar->client.actor.record;
        ShmCache *cache = shm_arena_cache(&liar->client.arena, liar->client.actor.id, liar->epoch & 0xff, 0);

        for (unsigned i = 0; i < N_OBJECTS; i++)
                shm_store_rlx(&cache->slots[i], slot_of(liar, i).value); /* ORDER: rlx; nonsense. */
        for (uint32_t i = 0; i < liar->client.arena.n_epochs * liar->client.arena.n_classes; i++)
                shm_or_sc(&record->used[i / 64], UINT64_C(1) << i % 64); /* ORDER: sc; as good as any. */
        while (!shm_load_rlx(&liar->stop)) { /* ORDER: rlx; soon enough. */
                /* ORDER: rlx; nonsense in any order. */
                bool frozen = shm_load_rlx(&record->attention) & SHM_ATTENTION_FREEZE;

                shm_store_rlx(&cache->count, frozen ? 0 : N_OBJECTS); /* ORDER: rlx; nonsense. */
        }
        shm_store_rlx(&cache->count, 0); /* ORDER: rlx; the thread that has the cache is at rest. */
        return NULL;
}

static void test_cache(void **state) {
        Liar liar;

        liar_open(&liar, *state);
        assert_int_equal(pthread_create(&liar.thread, NULL, lie_in_cache, &liar), 0);
        revoke_era(&liar, liar.epoch);
        expect_rarely_revoked(&liar);
        shm_store_rlx(&liar.stop, 1); /* ORDER: rlx; the join waits. */
        assert_int_equal(pthread_join(liar.thread, NULL), 0);
        expect_end(
                &liar); /* the slots that the daemon took out of the cache are ruined, and were the liar's own */
}

/* The rests are a second long by then, and one has just begun. */
static void wait_for_rest(void) {
        unsigned n = 0;

        WAIT_FOR(n_revoked_again() > 10);
        n = n_revoked_again();
        WAIT_FOR(n_revoked_again() > n);
}

static int try_advance(const Liar *liar) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;
        int r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        r = proto_call(liar->client.call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);
        return r == PROTO_E_REFUSED ? reply->error : r;
}

/* The id is not opened again before all of it is revoked, though there is no other. */
static void test_no_next_era(void **state) {
        Liar liar;

        liar_open(&liar, *state);
        set_intent(&liar, shm_intent_take(0, slot_of(&liar, 0)));
        revoke_era(&liar, liar.epoch);
        assert_int_equal(try_advance(&liar), -ENOSPC);
        wait_for_rest();
        assert_int_equal(try_advance(&liar), -ENOSPC);
        set_intent(&liar, 0);
        WAIT_FOR(try_advance(&liar) == 0);
        assert_int_equal(shm_epoch_current(&liar.client.arena), shm_epoch_number(liar.epoch & 0xff, 2));
        expect_end(&liar);
}

/* Slots of an era that was revoked are in nobody's way when the next one of the id is revoked, too. */
static void test_earlier_era(void **state) {
        uint32_t second;
        ShmActor other;
        uint64_t handle;
        Liar liar;

        liar_open(&liar, *state);
        second = daemon_advance(liar.client.call);
        assert_int_equal(second, shm_epoch_number(liar.epoch & 0xff, 2));
        set_intent(&liar, shm_intent_take(0, slot_of(&liar, 0)));
        assert_int_equal(shm_actor_init(&other, &liar.client.arena, liar.client.client, 1), 0);
        assert_int_equal(shm_object_alloc(&other, 64, second, NULL, &handle, NULL), 0);
        revoke_era(&liar, liar.epoch);
        assert_true(all_stale(&liar));
        assert_int_equal(n_kept(&liar), 1);
        wait_for_rest();
        assert_true(is_live(&liar, handle));
        /* ORDER: rlx; no thread of ours is in an operation. */
        shm_store_rlx(&other.record->intent_what, shm_intent_take(0, shm_handle_slot(handle)));
        revoke_era(&liar, second);
        assert_false(is_live(&liar, handle));
        assert_true(is_kept(&liar, handle));
        shm_store_rlx(&other.record->intent_what, 0); /* ORDER: rlx; nor now. */
        WAIT_FOR(!is_kept(&liar, handle));
        assert_true(is_kept(&liar, liar.handles[0]));
        set_intent(&liar, 0);
        WAIT_FOR(n_kept(&liar) == 0);
        shm_actor_deinit(&other);
        expect_end(&liar);
}

/* All that ask are answered, and one of them alone goes on. */
static void test_many_closings(void **state) {
        Liar liar;

        liar_open(&liar, *state);
        set_intent(&liar, shm_intent_take(0, slot_of(&liar, 0)));
        for (unsigned i = 0; i < N_CLOSINGS; i++)
                revoke_era(&liar, liar.epoch);
        expect_rarely_revoked(&liar);
        assert_int_equal(n_kept(&liar), 1);
        set_intent(&liar, 0);
        WAIT_FOR(n_kept(&liar) == 0);
        expect_end(&liar);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_intent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_next_era, setup_few, teardown),
                cmocka_unit_test_setup_teardown(test_earlier_era, setup_few, teardown),
                cmocka_unit_test_setup_teardown(test_many_closings, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
