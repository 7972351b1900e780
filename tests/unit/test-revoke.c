#include "shm/maintain/revoke.h"

#include <errno.h>

#include "shm/cache.h"
#include "shm/client.h"
#include "shm/epoch.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/repair.h"
#include "shm/slab.h"
#include "tests/util/arena.h"
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
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100), 0);
        return 0;
}

static ShmRevoke revoke(TestArena *t, uint32_t slice) {
        ShmRevoke r = { .epoch = 1 };

        while (!shm_revoke_step(&t->control, &r, slice))
                ;
        return r;
}

static void expect_clean(TestArena *t) {
        ShmCheck c;

        assert_int_equal(shm_check(&t->arena, &c), 0);
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s\n", c.texts[i]);
        assert_int_equal(c.problems + c.unsettled_slots, 0);
        for (int i = 0; i < N; i++)
                assert_true(shm_object_live(&t->arena, others[i]));
}

static void test_revoke(void **state) {
        TestArena *t = *state;
        ShmDrain drain = { .epoch = 1 };
        ShmRevoke r = revoke(t, 1);

        assert_int_equal(r.objects, N);
        assert_int_equal(r.kept, 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), -ESTALE);
        expect_clean(t);
        assert_true(shm_drain_step(&t->control, &drain, UINT32_MAX - 64));
        assert_int_equal(drain.n_left, 0);
        assert_int_equal(revoke(t, 100).objects, 0);
}

/* Of an epoch that is open, or was opened anew, nothing is touched. */
static void test_revoke_open(void **state) {
        TestArena *t = *state;
        ShmRevoke r = { .epoch = 2 };

        assert_true(shm_revoke_step(&t->control, &r, 1000));
        assert_int_equal(r.objects, 0);
        expect_clean(t);
}

/* A sweep that was late: the id was opened anew, and closed, and not to be revoked. */
static void test_revoke_later_era(void **state) {
        TestArena *t = *state;
        ShmRevoke r = { .epoch = 1, .era = 1 };
        uint64_t later;

        assert_int_equal(shm_epoch_advance(&t->arena, &(uint32_t){ 0 }), 0);
        later = test_alloc(t, 64, 1);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_true(shm_revoke_step(&t->control, &r, 1000));
        assert_int_equal(r.objects, N);
        assert_true(shm_object_live(&t->arena, later));
        assert_int_equal(revoke(t, 100).objects, 1);
}

/* A thread that was allocating as the epoch closed: its slot stays until it has moved on. */
static void test_revoke_in_hand(void **state) {
        TestArena *t = *state;
        SlotId id = shm_handle_slot(handles[0]);
        uint32_t tag = shm_handle_tag(t->arena.key, handles[0]);

        shm_actor_enter(&t->actor);
        shm_actor_intend(&t->actor, shm_intent_take(tag, id));
        assert_int_equal(revoke(t, 10).kept, 1);
        assert_true(shm_object_live(&t->arena, handles[0]));
        shm_actor_intend(&t->actor, 0);
        shm_actor_leave(&t->actor);
        assert_int_equal(revoke(t, 10).objects, 1);
        assert_false(shm_object_live(&t->arena, handles[0]));
        expect_clean(t);
}

/* The same, on top of its cache. */
static void test_revoke_popped(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 1, 0);

        shm_actor_enter(&t->actor);
        cache->slots[0] = shm_handle_slot(handles[0]).value;
        cache->count = 1;
        assert_int_equal(revoke(t, 10).kept, 1);
        assert_true(shm_object_live(&t->arena, handles[0]));
        cache->count = 0;
        shm_actor_leave(&t->actor);
        assert_int_equal(revoke(t, 10).objects, 1);
        expect_clean(t);
}

/* Control dies between the tags and the word. */
static void test_revoke_death(void **state) {
        TestArena *t = *state;
        SlotId id = shm_handle_slot(handles[0]);
        ShmRepairCounts counts;

        shm_actor_intend_mask(&t->control, shm_slab_word(&t->arena, slot_id_slab(id)).low);
        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
        ++*shm_slot_tag(&t->arena, id);
        shm_repair_control(&t->control, &counts);
        assert_int_equal(counts.slots, 1);
        expect_clean(t);
        assert_int_equal(revoke(t, 10).objects, N - 1);
        expect_clean(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(revoke),         TEST(revoke_open),   TEST(revoke_later_era),
                TEST(revoke_in_hand), TEST(revoke_popped), TEST(revoke_death),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
