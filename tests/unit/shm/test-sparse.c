/*
 * Slabs of an open epoch that are nearly empty come back, though a thread that allocates and frees keeps handing out
 * the slots in its caches.
 */
#include <stdio.h>
#include <stdlib.h>

#include "shm/cache/batch.h"
#include "shm/cache/cache.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_SLABS 15625U
#define KEPT 20 /* one object in so many is left after the fall */
#define TURNOVERS 8

static const uint32_t sizes[] = { 64,  96,  128, 192,  256,  384,  512,  640,
                                  768, 896, 992, 1024, 1344, 2048, 3072, 4096 };
#define N_SIZES ((uint32_t) (sizeof(sizes) / sizeof(sizes[0])))

typedef struct Turnover {
        TestArena test;
        uint64_t *handles;
        uint32_t n_live;
        uint64_t random;
} Turnover;

static uint32_t turnover_below(Turnover *t, uint32_t n) {
        t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t) ((t->random >> 33) % n);
}

static uint64_t turnover_alloc(Turnover *t, size_t size) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&t->test.actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
        return handle;
}

static void turnover_free_one(Turnover *t) {
        uint32_t i = turnover_below(t, t->n_live);

        assert_int_equal(shm_object_free(&t->test.actor, t->handles[i]), 0);
        t->handles[i] = t->handles[--t->n_live];
}

static uint32_t count_used_slabs(const ShmArena *arena) {
        uint32_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++) {
                SlabState s = slab_word_state(shm_slab_word(arena, slab));

                n += s >= SLAB_PARTIAL && s <= SLAB_DRAINING;
        }
        return n;
}

/* Slabs in use over the fewest that the live objects fit in. */
static double turnover_excess(const Turnover *t, uint32_t class) {
        uint32_t n_slots = t->test.arena.classes[class].n_slots;

        return (double) count_used_slabs(&t->test.arena) / ((t->n_live + n_slots - 1) / n_slots);
}

/* All slabs are full of objects of the class, then one object in KEPT is left; each is replaced TURNOVERS times. */
static double turnover_run(uint32_t class, ShmCacheMode mode) {
        ShmGeometry geometry = test_geometry();
        Turnover t = { .random = 1 };
        uint32_t n_all, n_kept;
        double before;

        geometry.slabs_size = (uint64_t) N_SLABS * SHM_SLAB_SIZE;
        geometry.n_classes = N_SIZES;
        for (uint32_t i = 0; i < N_SIZES; i++)
                geometry.class_size[i] = sizes[i];
        test_arena_init(&t.test, &geometry);
        t.test.actor.mode = mode;
        n_all = N_SLABS * t.test.arena.classes[class].n_slots - SHM_CACHE_MAX;
        n_kept = n_all / KEPT;
        t.handles = calloc(n_all, sizeof(*t.handles));
        while (t.n_live < n_all)
                t.handles[t.n_live++] = turnover_alloc(&t, sizes[class]);
        while (t.n_live > n_kept)
                turnover_free_one(&t);
        before = turnover_excess(&t, class);
        for (uint32_t i = 0; i < TURNOVERS * n_kept; i++) {
                turnover_free_one(&t);
                t.handles[t.n_live++] = turnover_alloc(&t, sizes[class]);
        }
        printf("# class %4u: slabs in use over slabs needed: %.2f, after %d turnovers %.2f\n", sizes[class],
               before, TURNOVERS, turnover_excess(&t, class));
        before = turnover_excess(&t, class);
        free(t.handles);
        test_arena_deinit(&t.test);
        return before;
}

static void test_sparse_slabs_empty(void **state) {
        for (uint32_t class = 0; class < N_SIZES; class += 1)
                assert_true(turnover_run(class, SHM_CACHE_ON) <= 1.5);
}

/* A batch of frees passes a sparse slab over, too: the single free that follows gives the slot back to it. */
static void test_batch_passes_over(void **state) {
        TestArena *t = *state;
        uint64_t handles[128], *sparse = handles + 64;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);
        uint32_t count;

        for (uint32_t i = 0; i < 128; i++)
                handles[i] = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        for (uint32_t i = 0; i < 16;
             i++) /* uncached: the first of two slabs has room, in the second two are left */
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        for (uint32_t i = 2; i < 64; i++)
                assert_int_equal(shm_object_free(&t->actor, sparse[i]), 0);
        t->actor.mode = SHM_CACHE_ON;
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, SHM_EPOCH_CURRENT)), 0);
        count = cache->count;
        assert_int_equal(shm_batch_free(&t->actor, sparse, 2), 0);
        assert_int_equal(shm_object_free(&t->actor, sparse[0]), 0);
        assert_int_equal(cache->count, count);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sparse_slabs_empty),
                cmocka_unit_test_setup_teardown(test_batch_passes_over, test_arena_setup,
                                                test_arena_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
