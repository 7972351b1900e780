/* Accesses to shared memory that an eviction takes: the shm layer is built with SHM_STEP. */
#include "shm/cache/cache.h"
#include "shm/map/map.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/util/map-options.h"

#define ARENA_SIZE (UINT64_C(1) << 30)
#define SMALL_ARENA_SIZE (UINT64_C(16) << 20)
#define COST 64
#define N_ENTRIES 20U
#define N_PUTS 1000U
#define STEPS_MAX 1000U /* for a put */
#define STEPS_BESIDE_MAX 3000U /* for a put that empties a slab of 32 entries, or some */

static uint64_t n_steps;

void shm_step(const void *address) {
        (void) address;
        n_steps++;
}

static void put_large(ShmActor *actor, const ShmTrie *trie, uint32_t number, uint32_t size, uint32_t epoch) {
        static uint8_t value[4096];
        const ShmMapPut put = { .value = value, .value_size = size, .epoch = epoch };
        const ShmMapKey key = { &number, sizeof(number), shm_hash(trie->arena, &number, sizeof(number)) };

        assert_int_equal(shm_map_put(actor, trie, &key, &put, NULL), 0);
}

static void put(ShmActor *actor, const ShmTrie *trie, uint32_t number) {
        put_large(actor, trie, number, sizeof(number), SHM_EPOCH_CURRENT);
}

/* Two threads have their entries in slabs far from each other's. */
static void put_all(ShmActor *actors, const ShmTrie *trie, uint32_t from, uint32_t to) {
        for (uint32_t i = from; i < to; i++)
                put(&actors[i % 2], trie, i);
}

/*
 * A small map in a large pool, whose other slabs are in use by others: the hand does not pass them all, sweep by sweep.
 * (They would not all be committed for this test: they have no word.)
 */
static void test_evict_small_map(void **state) {
        ShmMapTotals totals;
        ShmActor actors[2];
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, ARENA_SIZE);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_actor_init(&actors[i], &arena, 0, i + 1), 0);
        map_trie_create(&actors[0], &trie);
        TRIE_SET_OPTION(&trie, limit_bytes, N_ENTRIES * COST);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        put_all(actors, &trie, 0, 2 * N_ENTRIES);
        arena.header->n_slabs_ever.value = arena.n_slabs;

        n_steps = 0;
        put_all(actors, &trie, 2 * N_ENTRIES, 2 * N_ENTRIES + N_PUTS);
        assert_in_range(n_steps, N_PUTS, N_PUTS * STEPS_MAX);

        shm_map_totals(&arena, trie.map - 1, &totals);
        assert_in_range(totals.entries, 1, N_ENTRIES + 2);
        assert_int_equal(totals.evictions, 2 * N_ENTRIES + N_PUTS - totals.entries);
        for (uint32_t i = 0; i < 2; i++)
                map_actor_leave(&actors[i]);
        shm_arena_deinit(&arena);
        (void) state;
}

/* A map that comes late takes memory of one that has nothing of its sizes, nor of its epoch. */
static void test_evict_beside_other_keys(void **state) {
        static const uint32_t sizes[] = { 700, 20, 3000 };
        ShmTrie late, first;
        ShmActor actor;
        ShmArena arena;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &late);
        map_trie_create_as(&actor, "map.first", &first);
        TRIE_SET_OPTION(&late, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&first, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < SMALL_ARENA_SIZE / 100; i++)
                put_large(&actor, &first, i, 88, SHM_EPOCH_CURRENT);

        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                n_steps = 0;
                for (uint32_t k = 0; k < N_PUTS; k++)
                        put_large(&actor, &late, i * N_PUTS + k, sizes[i],
                                  i == 1 ? first.epoch : SHM_EPOCH_CURRENT);
                assert_in_range(n_steps, N_PUTS, N_PUTS * STEPS_BESIDE_MAX);
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_evict_small_map),
                cmocka_unit_test(test_evict_beside_other_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
