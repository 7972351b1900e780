#include "shm/maintain/revoke.h"

#include <errno.h>

#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/maintain.h"
#include "tests/util/test.h"

#define N 200

static uint64_t handles[N], others[N]; /* in epoch 1, which is closed, and in epoch 2 */

static int setup(void **state) {
        static ShmFreeze freeze;
        TestArena *t;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        assert_int_equal(shm_client_add(&t->arena, &(ShmClientInfo){ .pid = 1, .start_time = 1 }), 0);
        t->actor.mode = SHM_CACHE_ON;
        for (int i = 0; i < N; i++) {
                handles[i] = test_alloc(t, 64 + (unsigned) i % 3 * 200, 1);
                others[i] = test_alloc(t, 64, 2);
        }
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        freeze = (ShmFreeze){};
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, 2), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 0);
        return 0;
}

static ShmRevoke revoke(TestArena *t) {
        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        return maintain_revoke(&t->control, 1);
}

static void expect_clean(TestArena *t) {
        ShmCheck c;

        assert_int_equal(shm_check(&t->arena, &c), 0);
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s\n", c.texts[i]);
        assert_int_equal(c.problems + c.in_flight_slots, 0);
        for (int i = 0; i < N; i++)
                assert_true(shm_object_live(&t->arena, others[i]));
}

static void test_revoke(void **state) {
        TestArena *t = *state;
        ShmDrain drain = { .epoch = 1, .final = true };
        ShmRevoke r = revoke(t);

        assert_int_equal(r.objects, N);
        assert_int_equal(r.kept, 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), -ESTALE);
        expect_clean(t);
        assert_true(shm_drain_step(&t->control, &drain, UINT32_MAX - 64));
        assert_int_equal(drain.n_left, 0);
        assert_int_equal(revoke(t).objects, 0);
}

/* The walk touches no object of an epoch that nobody revoked. */
static void test_revoke_open(void **state) {
        TestArena *t = *state;

        assert_int_equal(maintain_revoke(&t->control, 2).objects, 0);
        assert_int_equal(maintain_revoke(&t->control, 1).objects, 0);
        expect_clean(t);
        for (int i = 0; i < N; i++)
                assert_true(shm_object_live(&t->arena, handles[i]));
}

/* Once around the ring, to era 2 of epoch 1, which is current then. */
static uint64_t alloc_later(TestArena *t) {
        uint64_t later;

        assert_int_equal(shm_epoch_advance(&t->arena, &(uint32_t){ 0 }), 0);
        later = test_alloc(t, 64, 1);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        return later;
}

/* Objects of an era that nobody named stay, earlier ones too. */
static void test_revoke_newest_era(void **state) {
        TestArena *t = *state;
        uint64_t later = alloc_later(t);

        assert_int_equal(revoke(t).objects, 1);
        assert_false(shm_object_live(&t->arena, later));
        for (int i = 0; i < N; i++)
                assert_true(shm_object_live(&t->arena, handles[i]));
}

static void test_revoke_named_era(void **state) {
        TestArena *t = *state;
        uint64_t later = alloc_later(t);

        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(1, 1), false), 0);
        assert_int_equal(maintain_revoke(&t->control, 1).objects, N);
        assert_true(shm_object_live(&t->arena, later));
}

static void test_revoke_older_eras(void **state) {
        TestArena *t = *state;
        uint64_t later = alloc_later(t);

        assert_int_equal(shm_epoch_revoke(&t->arena, 1, true), 0);
        assert_int_equal(maintain_revoke(&t->control, 1).objects, N + 1);
        assert_false(shm_object_live(&t->arena, later));
        expect_clean(t);
}

static bool is_taken(const TestArena *t, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);
        SlabWord w = shm_slab_word(&t->arena, slot_id_slab(id));

        return (shm_slab_view_taken(&t->arena, w) & slot_id_mask(id)) != 0;
}

/* A thread has the slot of handles[0] in hand: the handle is stale at once, the slot is kept until it has let go. */
static void expect_kept(TestArena *t) {
        assert_int_equal(revoke(t).kept, 1);
        assert_false(shm_object_live(&t->arena, handles[0]));
        assert_true(is_taken(t, handles[0]));
}

static void expect_collected(TestArena *t) {
        assert_int_equal(revoke(t).kept, 0);
        expect_clean(t);
        assert_false(is_taken(t, handles[0]));
}

/* A step looks at so many slabs, also of eras that are not concerned. */
static void test_revoke_steps(void **state) {
        TestArena *t = *state;
        uint32_t number, n_steps = 1;
        ShmRevoke r = {};

        for (int i = 0; i < 5; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number, shm_epoch_number(1, 3));
        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        assert_true(shm_epoch_revoking(&t->arena, 1, &r.eras));
        for (; !shm_revoke_mark(&t->control, &r, 1); n_steps++)
                assert_true(r.slabs.position > 0);
        assert_true(n_steps > 10);
        assert_int_equal(r.objects, 0);
        assert_int_equal(r.slabs.position, 0);
        for (int i = 0; i < N; i++)
                assert_true(shm_object_live(&t->arena, handles[i]));
}

/* It was allocating as the epoch closed. */
static void test_revoke_in_hand(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        shm_actor_intend(&t->actor, shm_intent_take(shm_handle_tag(t->arena.key, handles[0]),
                                                    shm_handle_slot(handles[0])));
        expect_kept(t);
        shm_actor_intend(&t->actor, 0);
        shm_actor_leave(&t->actor);
        expect_collected(t);
}

/* The same, on top of its cache. */
static void test_revoke_popped(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 1, 0);

        shm_actor_enter(&t->actor);
        cache->slots[0] = shm_handle_slot(handles[0]).value;
        cache->count = 1;
        expect_kept(t);
        cache->count = 0;
        shm_actor_leave(&t->actor);
        expect_collected(t);
}

/* It is filling it: the object is pending. */
static void test_revoke_noted(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_actor_note(&t->actor, handles[0], 0, 0), 0);
        expect_kept(t);
        assert_int_equal(shm_actor_unnote(&t->actor, handles[0]), 0);
        expect_collected(t);
}

/* It is about to write into it. */
static void test_revoke_guarded(void **state) {
        TestArena *t = *state;

        assert_true(shm_actor_guard(&t->actor, handles[0]));
        expect_kept(t);
        assert_true(!shm_actor_guard(&t->actor, handles[0]));
        shm_actor_unguard(&t->actor);
        expect_collected(t);
}

/*
 * The maintainer dies between the tags and the slots: the epoch names the work, and the next maintainer does
 * it.
 */
static void test_revoke_death(void **state) {
        TestArena *t = *state;
        ShmRevoke r = {};
        ShmCheck c;

        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        assert_true(shm_epoch_revoking(&t->arena, 1, &r.eras));
        while (!shm_revoke_mark(&t->control, &r, 1))
                ;
        assert_int_equal(r.objects, N);
        assert_int_equal(shm_check(&t->arena, &c), 0);
        assert_int_equal(c.problems, 0);
        assert_int_equal(c.in_flight_slots, N);
        assert_int_equal(maintain_revoke(&t->control, 1).objects, 0);
        expect_clean(t);
        assert_false(is_taken(t, handles[0]));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(revoke),           TEST(revoke_open),       TEST(revoke_newest_era),
                TEST(revoke_named_era), TEST(revoke_older_eras), TEST(revoke_in_hand),
                TEST(revoke_popped),    TEST(revoke_noted),      TEST(revoke_guarded),
                TEST(revoke_death),     TEST(revoke_steps),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
