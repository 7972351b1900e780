#include "shm/stats/stats.h"

#include <errno.h>
#include <string.h>

#include "shm/cache/requested.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"
#include "shm/map/entry/map.h"
#include "shm/slab/pages.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static void test_empty(void **state) {
        TestArena *t = *state;
        uint64_t before = shm_arena_resident_size(&t->arena);
        ShmStats s;

        shm_stats(&t->arena, &s);
        assert_int_equal(s.size, 256 * SHM_SLAB_SIZE);
        assert_int_equal(s.committed_size, 0);
        assert_int_equal(s.live_objects, 0);
        assert_int_equal(s.threads, 1);
        assert_int_equal(s.clients, 0);
        /* Record 0, the client table and the named roots are read: a page each, two for the last, and no cache. */
        assert_true(shm_arena_resident_size(&t->arena) <= before + 4 * SHM_SLAB_SIZE);
}

#define N_COMMITTED (2 * SHM_COMMIT_RUN_MAX) /* five slabs take two runs */

static void test_objects(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = { .pid = 1 };
        uint64_t handles[100];
        uint32_t number;
        uint32_t large = shm_arena_class(&t->arena, 816);
        ShmStats s;

        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        for (int i = 0; i < 100; i++)
                handles[i] = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        for (int i = 0; i < 6; i++)
                test_alloc(t, 816, shm_epoch_number(1, 0));
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0); /* epoch 1, in era 2 */
        test_alloc(t, 700, number);
        for (int i = 0; i < 10; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);

        shm_stats(&t->arena, &s);
        assert_int_equal(s.committed_size, N_COMMITTED * SHM_SLAB_SIZE);
        assert_int_equal(s.retained_size, (N_COMMITTED - 5) * SHM_SLAB_SIZE);
        assert_int_equal(s.n_slabs_ever, N_COMMITTED);
        assert_int_equal(s.live_objects, 97);
        assert_int_equal(s.live_size, 90 * 64 + 7 * 816);
        assert_int_equal(s.epochs[0].slabs, 2);
        assert_int_equal(s.epochs[0].live_objects, 90);
        assert_int_equal(s.epochs[0].live_size, 90 * 64);
        assert_int_equal(s.epochs[1].live_objects, 1);
        assert_int_equal(s.older[1].slabs, 2);
        assert_int_equal(s.older[1].live_objects, 6);
        assert_int_equal(s.classes[0].live_objects, 90);
        assert_int_equal(s.classes[large].live_objects, 7);
        assert_int_equal(s.classes[large].slabs, 3);
        assert_int_equal(s.epoch_classes[1][large].live_objects, 7);
        assert_int_equal(s.counters[SHM_COUNT_ALLOCS_UNCACHED], 107);
        assert_int_equal(s.counters[SHM_COUNT_FREES_UNCACHED], 10);
        assert_int_equal(s.clients, 1);
        assert_int_equal(s.metadata_size + s.committed_size, shm_arena_resident_size(&t->arena));
}

/* Slots in a cache are taken and not live. */
static void test_cached(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);
        uint64_t mask;
        uint32_t slab;
        ShmStats s;

        for (int i = 0; i < 5; i++)
                slab = slot_id_slab(shm_handle_slot(test_alloc(t, 64, SHM_EPOCH_CURRENT)));
        assert_int_equal(shm_slab_claim(&t->actor, slab, slab_key(0, 0, 1), 8, &mask), 0);
        shm_actor_intend(&t->actor, 0);
        for (; mask != 0; mask &= mask - 1)
                cache->slots[cache->count++] = slot_id(slab, (uint32_t) __builtin_ctzll(mask)).value;

        shm_stats(&t->arena, &s);
        assert_int_equal(s.live_objects, 5);
        assert_int_equal(s.live_size, 5 * 64);
        assert_int_equal(s.epochs[0].live_objects, 5);
        assert_int_equal(s.epoch_classes[0][0].live_objects, 5);
        assert_int_equal(s.cached_objects, 8);
        assert_int_equal(s.class_taken[0], 13);

        cache->count = UINT32_MAX; /* lies lead to small numbers, not to huge ones */
        shm_stats(&t->arena, &s);
        assert_int_equal(s.live_objects, 0);
        assert_int_equal(s.live_size, 0);
        assert_int_equal(s.cached_objects, SHM_CACHE_MAX);
}

/* Refusals are summed over threads; of their sizes the largest counts. */
static void test_too_large(void **state) {
        TestArena *t = *state;
        ShmActor other;
        uint64_t handle;
        ShmStats s;

        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 2), 0);
        for (size_t size = 4095; size < 4100; size++)
                (void) shm_object_alloc(&t->actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL);
        assert_int_equal(shm_object_alloc(&other, 5000, 0, NULL, &handle, NULL), -E2BIG);
        assert_int_equal(shm_object_alloc(&other, 4900, 0, &(ShmPending){}, &handle, NULL), -E2BIG);
        assert_int_equal(shm_map_refuse_large(&other, 10, 2000), -E2BIG);
        assert_int_equal(shm_map_refuse_large(&t->actor, 1, 800), -E2BIG);

        shm_stats(&t->arena, &s);
        assert_int_equal(s.counters[SHM_COUNT_TOO_LARGE], 3 + 2);
        assert_int_equal(s.counters[SHM_COUNT_TOO_LARGE_MAX], 5000);
        assert_int_equal(s.counters[SHM_COUNT_VALUES_TOO_LARGE], 2);
        assert_int_equal(s.counters[SHM_COUNT_VALUES_TOO_LARGE_MAX], 2010 + sizeof(ShmMapLeaf));
        assert_int_equal(s.counters[SHM_COUNT_FAILURES], 0);

        assert_int_equal(shm_map_refuse_large(&t->actor, SIZE_MAX, SIZE_MAX), -E2BIG);
        shm_stats(&t->arena, &s);
        assert_true(s.counters[SHM_COUNT_VALUES_TOO_LARGE_MAX] == SIZE_MAX);
}

static void test_dropped(void **state) {
        TestArena *t = *state;
        ShmStats s;
        uint32_t n;

        for (uint32_t i = 0; i < 160; i += n)
                assert_int_equal(shm_pages_commit(&t->control, 160 - i, &n), 0);
        assert_int_equal(shm_pages_trim(&t->control, 10, UINT32_MAX), 150);
        shm_stats(&t->arena, &s);
        assert_int_equal(s.committed_size, 10 * SHM_SLAB_SIZE);
        assert_int_equal(s.retained_size, 10 * SHM_SLAB_SIZE);
        assert_int_equal(s.reclaimed_slabs, 150);
}

/* In steps of any size the same comes out; with many caches a record takes many. */
static void test_steps(void **state) {
        static const uint32_t budgets[] = { 1, 7, 64, 1000 };
        TestArena *t = *state;
        uint32_t record = t->actor.id;
        ShmStats whole, s;
        ShmStatsWalk walk;

        for (int i = 0; i < 100; i++)
                test_alloc(t, (size_t) (64 + i), (uint32_t) i % 2 + 1);
        for (uint32_t i = 0; i < 32; i++)
                shm_requested_note(test_cache(t, record, i / 8, i % 8), 100);
        shm_stats(&t->arena, &whole); /* reads the records' pages into being, which is metadata */
        shm_stats(&t->arena, &whole);
        assert_int_equal(whole.requested[(100 - 1) / SHM_CLASS_GRANULE], 32);
        for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
                uint32_t n_steps = 1;

                shm_stats_begin(&walk, &t->arena, &s);
                while (!shm_stats_step(&walk, budgets[i]))
                        n_steps++;
                assert_memory_equal(&s, &whole, sizeof(s));
                assert_true(n_steps > (16 + 32) / budgets[i]);
        }
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_ARENA(test_empty),   ON_ARENA(test_objects), ON_ARENA(test_cached),
                ON_ARENA(test_dropped), ON_ARENA(test_steps),   ON_ARENA(test_too_large),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
