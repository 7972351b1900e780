/*
 * A record's head: every state with every event; the freeze bit beside it; and the record as a new owner
 * finds it.
 */
#include "shm/arena/record.h"

#include <errno.h>

#include "shm/arena/clock.h"
#include "shm/cache/cache-hit.h"
#include "shm/maintain/freeze.h"
#include "shm/epoch/attention.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define RECORD 1
#define CLIENT UINT32_C(0xabcdef)
#define TID UINT32_C(0x89abcdef)
#define NEW_TID UINT32_C(0x12345678)

#define UNUSED SHM_RECORD_UNUSED
#define USED SHM_RECORD_USED
#define DEAD SHM_RECORD_DEAD
#define ROLLED_BACK SHM_RECORD_ROLLED_BACK
#define LEFT SHM_RECORD_LEFT
#define N_STATES (_SHM_RECORD_STATE_N + 2) /* two that are none */

static unsigned state_of(unsigned i) {
        return i < _SHM_RECORD_STATE_N ? i : i == _SHM_RECORD_STATE_N ? _SHM_RECORD_STATE_N : 255;
}

static uint64_t head(unsigned state) {
        return (uint64_t) state << 56 | (state == UNUSED ? 0 : (uint64_t) CLIENT << 32 | TID);
}

/* No edge. */
#define NONE (-1)

static void test_table(void **state) {
        static const int to[_SHM_RECORD_STATE_N][_SHM_RECORD_EV_N] = {
                /* TAKE, INHERIT, FREE, LEAVE, DIE, ROLL_BACK */
                [UNUSED] = { USED, NONE, NONE, NONE, NONE, NONE },
                [USED] = { NONE, USED, UNUSED, LEFT, DEAD, NONE },
                [DEAD] = { NONE, NONE, NONE, NONE, NONE, ROLLED_BACK },
                [ROLLED_BACK] = { NONE, NONE, UNUSED, NONE, NONE, NONE },
                [LEFT] = { NONE, NONE, UNUSED, NONE, DEAD, NONE },
        };

        for (unsigned s = 0; s < _SHM_RECORD_STATE_N; s++)
                for (unsigned event = 0; event < _SHM_RECORD_EV_N; event++)
                        assert_int_equal(shm_edge_to(shm_record_edges, s, event), to[s][event]);
        assert_int_equal(shm_edge_to(shm_record_edges, UNUSED, _SHM_RECORD_EV_N), NONE);
        assert_int_equal(shm_edge_to(shm_record_edges, _SHM_RECORD_STATE_N, SHM_RECORD_EV_TAKE), NONE);
}

/* All other records are somebody's. */
static bool do_take(ShmArena *arena) {
        ShmActor actor;

        return shm_actor_init(&actor, arena, CLIENT, NEW_TID) == 0;
}

static bool do_inherit(ShmArena *arena) {
        return shm_record_inherit(arena, RECORD, CLIENT, NEW_TID);
}

static bool do_inherit_another(ShmArena *arena) {
        return shm_record_inherit(arena, RECORD, CLIENT - 1, NEW_TID);
}

static bool do_free(ShmArena *arena) {
        return shm_record_set_unused(arena, RECORD);
}

static bool do_leave(ShmArena *arena) {
        shm_record_set_left(arena, RECORD);
        return shm_record_owner(arena, RECORD).state == LEFT;
}

static bool do_die(ShmArena *arena) {
        return shm_record_mark_dead(arena, RECORD);
}

static bool do_gone(ShmArena *arena) {
        return shm_record_mark_gone(arena, RECORD, shm_record_owner(arena, RECORD));
}

/* The maintainer looked at the head before another thread inherited the record. */
static bool do_gone_before(ShmArena *arena) {
        ShmRecordOwner owner = shm_record_owner(arena, RECORD);

        owner.tid++;
        return shm_record_mark_gone(arena, RECORD, owner);
}

static bool do_roll_back(ShmArena *arena) {
        shm_record_set_rolled_back(arena, RECORD);
        return shm_record_owner(arena, RECORD).state == ROLLED_BACK;
}

/* The functions change the head by exactly these edges, and the freeze bit by none. */
static void test_edges(void **state) {
        static const struct {
                bool (*operation)(ShmArena *arena);
                uint32_t tid; /* afterwards */
                int to[N_STATES]; /* from UNUSED, USED, DEAD, ROLLED_BACK, LEFT, and two that are no states */
        } table[] = {
                { do_take, NEW_TID, { USED, NONE, NONE, NONE, NONE, NONE, NONE } },
                { do_inherit, NEW_TID, { NONE, USED, NONE, NONE, NONE, NONE, NONE } },
                { do_inherit_another, 0, { NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
                { do_free, 0, { NONE, UNUSED, NONE, UNUSED, UNUSED, NONE, NONE } },
                { do_leave, TID, { NONE, LEFT, NONE, NONE, NONE, NONE, NONE } },
                { do_die, TID, { NONE, DEAD, NONE, NONE, DEAD, NONE, NONE } },
                { do_gone, TID, { NONE, DEAD, NONE, NONE, DEAD, NONE, NONE } },
                { do_gone_before, 0, { NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
                { do_roll_back, TID, { NONE, NONE, ROLLED_BACK, NONE, NONE, NONE, NONE } },
        };
        TestArena *t = *state;
        uint64_t *word = &t->arena.heads[RECORD].word;
        ShmRecordOwner owner;

        for (uint32_t i = 1; i < t->arena.n_records; i++)
                t->arena.heads[i].word = head(USED);
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
                for (unsigned s = 0; s < N_STATES; s++)
                        for (unsigned frozen = 0; frozen < 2; frozen++) {
                                uint64_t attention = 42 | (frozen ? SHM_ATTENTION_FREEZE : 0);
                                int to = table[i].to[s];
                                bool stays = (table[i].operation == do_leave && s == LEFT) ||
                                             (table[i].operation == do_roll_back && s == ROLLED_BACK);

                                *word = head(state_of(s));
                                t->actor.record->attention = attention;
                                assert_int_equal(table[i].operation(&t->arena), to != NONE || stays);
                                assert_int_equal(t->actor.record->attention, attention);
                                owner = shm_record_owner(&t->arena, RECORD);
                                if (to == NONE) {
                                        assert_int_equal(*word, head(state_of(s)));
                                        continue;
                                }
                                assert_int_equal(owner.state, to);
                                assert_int_equal(owner.client, to == UNUSED ? 0 : CLIENT);
                                assert_int_equal(owner.tid, to == UNUSED ? 0 : table[i].tid);
                        }
}

static bool is_frozen(const TestArena *t) {
        return t->actor.record->attention & SHM_ATTENTION_FREEZE;
}

/* The bit with every state: a freeze sets it in all, a step clears it where repair does not. */
static void test_freeze_bit(void **state) {
        static const struct {
                int to; /* after a step */
                bool open; /* before it: somebody has to take the bit back */
                bool frozen; /* after it */
        } table[_SHM_RECORD_STATE_N] = {
                [UNUSED] = { UNUSED, true, false }, [USED] = { USED, true, false },
                [DEAD] = { DEAD, false, true },     [ROLLED_BACK] = { ROLLED_BACK, false, true },
                [LEFT] = { UNUSED, true, false },
        };
        static ShmFreeze freeze;
        TestArena *t = *state;

        for (unsigned s = 0; s < _SHM_RECORD_STATE_N; s++) {
                uint64_t before = t->actor.record->attention;

                freeze = (ShmFreeze){};
                t->arena.heads[RECORD].word = head(s);
                t->actor.record->attention &= ~SHM_ATTENTION_FREEZE;
                assert_int_equal(shm_freeze_is_over(&t->arena), s != LEFT);
                assert_int_equal(shm_freeze_begin(&t->control, &freeze, 1), 0);
                assert_true(is_frozen(t));
                assert_true(t->actor.record->attention > before);
                shm_attention_publish(&t->arena);
                assert_true(is_frozen(t));
                assert_int_equal(shm_freeze_is_over(&t->arena), !table[s].open);
                assert_int_equal(freeze.n_left, 1);
                assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 0);
                assert_int_equal(is_frozen(t), table[s].frozen);
                assert_int_equal(shm_record_owner(&t->arena, RECORD).state, table[s].to);
                assert_true(shm_freeze_is_over(&t->arena));
        }
}

/* A thread that is inside an operation keeps its caches, and the bit, until it has left it. */
static void freeze_inside(TestArena *t) {
        static ShmFreeze freeze;
        uint32_t n_pending;

        freeze = (ShmFreeze){};
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, 2), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 1);
        assert_true(is_frozen(t));
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 1);
        assert_int_equal(shm_freeze_left(&t->control, &freeze, 1, &n_pending), 1);
        assert_int_equal(n_pending, 1);
        assert_int_equal(shm_freeze_left(&t->control, &freeze, 0, &n_pending), 0);
        assert_int_equal(n_pending, 0);
        shm_actor_leave(&t->actor);
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 0);
        assert_int_equal(shm_freeze_left(&t->control, &freeze, 1, &n_pending), 1);
        assert_int_equal(n_pending, 0);
        /* The operation that it is in by now began frozen. */
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 0);
        assert_false(is_frozen(t));
        shm_actor_leave(&t->actor);
}

/* Whichever of the records is its. */
static void test_freeze_inside(void **state) {
        TestArena *t = *state;

        freeze_inside(t);
        while (shm_actor_init(&t->actor, &t->arena, CLIENT, TID) == 0)
                freeze_inside(t);
        assert_int_equal(t->actor.id, t->arena.n_records - 1);
}

static void fail_membarrier(const TestArena *t, ShmFreeze *freeze) {
        freeze->unfenced = true;
        freeze->seen_usec[t->actor.id] = UINT64_MAX;
}

/* The next maintainer, before the time at which stores are seen, finds a thread that fences inside its operation. */
static void test_freeze_taken_over(void **state) {
        static ShmFreeze first, second;
        TestArena *t = *state;

        first = second = (ShmFreeze){};
        t->actor.record->flags |= SHM_RECORD_FENCES;
        t->control.process = 0;
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_begin(&t->control, &first, UINT64_MAX), 0);
        assert_int_equal(shm_freeze_step(&t->control, &first, 100, shm_monotonic_usec()), 1);
        /* As if that were now, however long this test is stopped. */
        t->arena.heads[t->actor.id].seen_usec = UINT64_MAX / 2;
        assert_true(shm_freeze_resume(&t->control, &second));
        assert_int_equal(shm_freeze_step(&t->control, &second, 100, shm_monotonic_usec()), 1);
        assert_true(is_frozen(t));
        shm_actor_leave(&t->actor);
        assert_int_equal(shm_freeze_step(&t->control, &second, 100, UINT64_MAX), 0);
}

/* A membarrier that failed is tried again: threads that stand still after one that works are the maintainer's. */
static void test_freeze_fenced_again(void **state) {
        static ShmFreeze freeze;
        TestArena *t = *state;

        freeze = (ShmFreeze){};
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, 2), 0);
        shm_actor_leave(&t->actor);
        /* This operation may have begun before the thread saw the freeze. */
        shm_actor_enter(&t->actor);
        fail_membarrier(t, &freeze);
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 1);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 1);
        assert_false(freeze.unfenced);
        assert_true(is_frozen(t));
        shm_actor_leave(&t->actor);
        fail_membarrier(t, &freeze);
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 1);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, 100, UINT64_MAX), 0);
        assert_false(is_frozen(t));
}

/* The last owner may have died inside an operation; its counts are not the new owner's. */
static void test_take(void **state) {
        TestArena *t = *state;
        ShmRecord *r = t->actor.record;
        ShmActor actor;

        r->flags = SHM_RECORD_FENCES;
        assert_true(shm_record_set_unused(&t->arena, RECORD));
        assert_int_equal(r->flags, 0);
        assert_false(shm_record_set_unused(&t->arena, RECORD));
        r->seq = 7;
        for (uint32_t i = 0; i < SHM_COUNTERS_MAX; i++)
                r->counters[i] = 100 + i;
        assert_int_equal(shm_arena_n_records_ever(&t->arena), RECORD + 1);
        assert_int_equal(shm_actor_init(&actor, &t->arena, CLIENT, TID), 0);
        assert_int_equal(actor.id, RECORD);
        assert_int_equal(r->seq, 8);
        for (uint32_t i = 0; i < SHM_COUNTERS_MAX; i++) {
                assert_int_equal(r->base_counters[i], 100 + i);
                assert_int_equal(r->counters[i], 100 + i);
        }
        assert_int_equal(shm_arena_n_records_ever(&t->arena), RECORD + 1);
        shm_actor_take_over(&actor, &t->arena, RECORD);
        assert_int_equal(r->seq, 8);
        for (uint32_t i = RECORD + 1; i < t->arena.n_records; i++) {
                assert_int_equal(shm_actor_init(&actor, &t->arena, CLIENT, TID), 0);
                assert_int_equal(actor.id, i);
                assert_int_equal(shm_arena_n_records_ever(&t->arena), i + 1);
        }
        assert_int_equal(shm_actor_init(&actor, &t->arena, CLIENT, TID), -ENOSPC);
        shm_actor_deinit(&actor);
        assert_null(actor.record);
        assert_int_equal(shm_record_owner(&t->arena, t->arena.n_records - 1).state, UNUSED);
        shm_actor_deinit(&actor);
        assert_int_equal(shm_arena_n_records_ever(&t->arena), t->arena.n_records);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(table),
                TEST(edges),
                TEST(freeze_bit),
                TEST(freeze_inside),
                TEST(freeze_fenced_again),
                TEST(freeze_taken_over),
                TEST(take),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
