/* Requests that come while the maintainer is at other work. */
#include "shm/maintain/maintain.h"

#include <stdlib.h>

#include "shm/cache/cache.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_STEPS 100000
#define SEC UINT64_C(1000000)

static ShmMaintain *maintain_new(TestArena *t) {
        ShmMaintain *m = calloc(1, sizeof(*m));

        assert_non_null(m);
        shm_maintain_init(m, &t->control);
        return m;
}

static void run(ShmMaintain *m, uint64_t *now) {
        for (int i = 0; i < N_STEPS; i++) {
                uint64_t next = shm_maintain_step(m, *now);

                if (next == SHM_MAINTAIN_IDLE)
                        return;
                *now = next > *now ? next : *now + 1;
        }
        fail();
}

/* A client that asks for caches while others are being emptied for another one is not left to its timeout. */
static void test_caches_wanted_twice(void **state) {
        TestArena *t = *state;
        ShmMaintain *m = maintain_new(t);
        ShmHeader *header = t->arena.header;
        uint64_t now = 1;

        header->caches_wanted.value = 1;
        shm_maintain_look(m, false, now);
        header->caches_wanted.value = 2;
        shm_maintain_look(m, false, now);
        run(m, &now);
        assert_int_equal(header->caches_given.value, 2);
        free(m);
}

/* A leased epoch, in use, when the daemon is started anew; its client closes it while the walk is past its slabs. */
static void test_close_in_walk(void **state) {
        ShmGeometry geometry = test_geometry();
        TestArena *t = *state;
        ShmRepairCounts counts;
        ShmEpochInfo info;
        uint64_t now = 1;
        uint32_t number;
        ShmMaintain *m;

        test_arena_deinit(t);
        geometry.slabs_size = 2048 * SHM_SLAB_SIZE;
        test_arena_init(t, &geometry);
        m = maintain_new(t);
        assert_int_equal(shm_epoch_close(&t->arena, 3, true), 0);
        (void) shm_maintain_close(m, 3, now);
        run(m, &now);
        assert_int_equal(shm_epoch_lease(&t->arena, 3, "leased", 0, &number), 0);
        for (int i = 0; i < 1000 * 64; i++)
                (void) test_alloc(t, 64, number);

        *m = (ShmMaintain){};
        shm_maintain_init(m, &t->control);
        (void) shm_maintain_take_over(m, now, &counts);
        while (m->closes[3].state != SHM_CLOSE_WALK || m->closes[3].walk.slabs.position == 0)
                (void) shm_maintain_step(m, ++now);
        assert_int_equal(shm_epoch_close(&t->arena, number, true), 0);
        (void) shm_maintain_close(m, 3, now);
        run(m, &now);
        assert_int_equal(shm_epoch_get(&t->arena, 3, &info), 0);
        assert_int_equal(info.state, SHM_EPOCH_CLOSING);
        assert_int_equal(info.owner, 1);
        assert_int_equal(shm_epoch_end_leases(&t->arena, 0), 1);
        free(m);
}

/* A writer that leaves its record over and over holds up no round of a close, and no request for caches. */
static void test_left_over_and_over(void **state) {
        TestArena *t = *state;
        ShmMaintain *m = maintain_new(t);
        uint64_t now = 1;
        ShmActor other;

        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 5), 0);
        t->arena.header->caches_wanted.value = 1;
        shm_maintain_look(m, false, now);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        (void) shm_maintain_close(m, 1, now);
        for (int i = 0; i < N_STEPS && m->closes[1].n_walked == 0; i++) {
                t->arena.heads[other.id].word = (uint64_t) SHM_RECORD_LEFT << 56;
                (void) shm_maintain_step(m, now);
        }
        assert_int_equal(m->closes[1].n_walked, 1);
        assert_int_equal(t->arena.header->caches_given.value, 1);
        free(m);
}

/* A thread stays in a call for ever, and others free: walks take a small share of the time all the same. */
static void test_pending_and_freed(void **state) {
        TestArena *t = *state;
        ShmMaintain *m = maintain_new(t);
        uint64_t now = 1, n_rounds;

        (void) test_alloc(t, 64, 1);
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        (void) shm_maintain_close(m, 1, now);
        while (m->closes[1].n_rounds == 0)
                (void) shm_maintain_step(m, ++now);
        n_rounds = m->closes[1].n_rounds;
        for (uint64_t end = now + 100 * SEC; now < end;) {
                uint64_t next;

                now += m->closes[1].state == SHM_CLOSE_WALK ? SEC : 0;
                next = shm_maintain_step(m, now);
                now = next > now ? next : now + 1;
                if (m->closes[1].state == SHM_CLOSE_WAIT && !m->closes[1].woken)
                        shm_close_wake(&m->closes[1], now);
        }
        assert_true(m->closes[1].n_pending == 1);
        assert_in_range(m->closes[1].n_rounds - n_rounds, 5, 15);
        shm_actor_leave(&t->actor);
        free(m);
}

/* Notes, of which each record may have 64, are counted when a gathering is cut into short steps. */
static void test_notes_cost(void **state) {
        static ShmRefsSome some;
        ShmGeometry geometry = test_geometry();
        TestArena *t = *state;
        uint32_t budget = 512;
        uint64_t handle;
        ShmRefs refs;

        test_arena_deinit(t);
        geometry.n_records = 100;
        test_arena_init(t, &geometry);
        handle = test_alloc(t, 64, 0);
        for (uint32_t i = 2; i < geometry.n_records; i++) {
                ShmActor actor;

                assert_int_equal(shm_actor_init(&actor, &t->arena, 0, i), 0);
                for (uint32_t k = 0; k < SHM_NOTES_MAX; k++)
                        assert_int_equal(shm_actor_note(&actor, handle, 0, 0), 0);
        }
        shm_refs_init_some(&refs, &t->arena, &some);
        assert_int_equal(shm_refs_add(&refs, 0), 0);
        shm_refs_begin(&refs);
        assert_false(shm_refs_step(&refs, &budget));
        assert_true(refs.record < 10);
        do
                budget = 512;
        while (!shm_refs_step(&refs, &budget));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(caches_wanted_twice), TEST(notes_cost),    TEST(left_over_and_over),
                TEST(pending_and_freed),   TEST(close_in_walk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
