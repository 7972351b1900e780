#include "shm/slab/set.h"

#include "tests/util/arena.h"
#include "tests/util/test.h"

/* Makes the slab's word say that the slab belongs in the set FREE. */
static void make_free(ShmArena *arena, uint32_t slab) {
        arena->lines[slab].word.high = SLAB_FREE;
}

static void test_shape_levels(void **state) {
        const struct {
                uint32_t n_slabs, n_levels;
        } cases[] = { { 1, 1 },    { 64, 1 },      { 65, 2 },           { 4096, 2 },
                      { 4097, 3 }, { 1 << 18, 3 }, { SHM_SLABS_MAX, 4 } };
        ShmSetShape shape;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                shm_set_shape_init(&shape, cases[i].n_slabs);
                assert_int_equal(shape.n_levels, cases[i].n_levels);
                assert_int_equal(shape.level_words[0], 1);
                assert_true(shape.level_words[shape.n_levels - 1] * UINT64_C(64) >= cases[i].n_slabs);
        }
}

static void with_slabs(uint64_t n, TestArena *t) {
        ShmGeometry geometry = test_geometry();

        geometry.slabs_size = n * SHM_SLAB_SIZE;
        test_arena_init(t, &geometry);
}

static void test_find_sparse(void **state) {
        const uint32_t members[] = { 0, 1, 63, 64, 4095, 4096, 70000, 262143, 262144, 299999 };
        const size_t n = sizeof(members) / sizeof(members[0]);
        uint32_t slab = 0;
        TestArena t;

        with_slabs(300000, &t);
        assert_false(shm_set_find(&t.arena, SHM_SET_FREE, 0, &slab));
        for (size_t i = 0; i < n; i++)
                shm_set_add(&t.arena, SHM_SET_FREE, members[i]);

        for (size_t i = 0; i < n; i++) {
                uint32_t from = i == 0 ? 0 : members[i - 1] + 1;

                assert_true(shm_set_find(&t.arena, SHM_SET_FREE, from, &slab));
                assert_int_equal(slab, members[i]);
                assert_true(shm_set_has(&t.arena, SHM_SET_FREE, slab));
        }
        assert_false(shm_set_find(&t.arena, SHM_SET_FREE, 300000, &slab));
        test_arena_deinit(&t);
}

/* Removing the last bit of a word removes the bits above it, and nothing beside. */
static void test_remove_levels(void **state) {
        uint32_t slab;
        TestArena t;

        with_slabs(300000, &t);
        shm_set_add(&t.arena, SHM_SET_FREE, 5);
        shm_set_add(&t.arena, SHM_SET_FREE, 270000);
        shm_set_remove(&t.arena, SHM_SET_FREE, 270000);
        assert_false(shm_set_has(&t.arena, SHM_SET_FREE, 270000));
        assert_true(shm_set_has(&t.arena, SHM_SET_FREE, 5));
        assert_true(shm_set_find(&t.arena, SHM_SET_FREE, 0, &slab));
        shm_set_remove(&t.arena, SHM_SET_FREE, 5);
        assert_false(shm_set_find(&t.arena, SHM_SET_FREE, 0, &slab));
        for (uint32_t level = 0; level < t.arena.shape.n_levels; level++)
                assert_int_equal(t.arena.sets[t.arena.shape.level_off[level]], 0);
        test_arena_deinit(&t);
}

/* A bit whose slab wants to be in the set stays. */
static void test_remove_wanted(void **state) {
        TestArena *t = *state;

        make_free(&t->arena, 70);
        shm_set_add(&t->arena, SHM_SET_FREE, 70);
        shm_set_add(&t->arena, SHM_SET_FREE, 71);
        shm_set_remove_mask(&t->arena, SHM_SET_FREE, 1, UINT64_MAX);
        assert_true(shm_set_has(&t->arena, SHM_SET_FREE, 70));
        assert_false(shm_set_has(&t->arena, SHM_SET_FREE, 71));
}

/* The states that a death in add or remove may leave. */
static void test_repair_levels(void **state) {
        TestArena t;

        with_slabs(300000, &t);
        make_free(&t.arena, 4097);
        shm_set_repair(&t.arena, SHM_SET_FREE, 4097);
        assert_true(shm_set_has(&t.arena, SHM_SET_FREE, 4097));

        /* The neighbour's bit is there, those above are not: a remover died between. */
        t.arena.sets[t.arena.shape.level_off[0]] = 0;
        shm_set_repair(&t.arena, SHM_SET_FREE, 4098);
        assert_true(shm_set_has(&t.arena, SHM_SET_FREE, 4097));
        assert_false(shm_set_has(&t.arena, SHM_SET_FREE, 4098));
        test_arena_deinit(&t);
}

static void test_wants(void **state) {
        TestArena *t = *state;
        SlabWord listed = { .high = SLAB_PARTIAL | slab_key(2, 3, 1) };
        SlabWord draining = { .high = SLAB_DRAINING | slab_key(2, 3, 1) };
        SlabWord free_word = { .high = SLAB_FREE | slab_key(2, 3, 1) };

        assert_true(shm_set_wants(&t->arena, shm_set_partial(&t->arena, 3, 2), listed));
        assert_false(shm_set_wants(&t->arena, shm_set_partial(&t->arena, 3, 1), listed));
        assert_false(shm_set_wants(&t->arena, shm_set_partial(&t->arena, 2, 2), listed));
        assert_false(shm_set_wants(&t->arena, shm_set_partial(&t->arena, 3, 2), draining));
        assert_true(shm_set_wants(&t->arena, shm_set_of_epoch(&t->arena, 3), listed));
        assert_true(shm_set_wants(&t->arena, shm_set_of_epoch(&t->arena, 3), draining));
        assert_false(shm_set_wants(&t->arena, shm_set_of_epoch(&t->arena, 3), free_word));
        assert_true(shm_set_wants(&t->arena, SHM_SET_FREE, free_word));
        assert_true(shm_set_wants(&t->arena, SHM_SET_UNCOMMITTED, (SlabWord){}));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shape_levels),
                cmocka_unit_test(test_find_sparse),
                cmocka_unit_test(test_remove_levels),
                cmocka_unit_test_setup_teardown(test_remove_wanted, test_arena_setup, test_arena_teardown),
                cmocka_unit_test(test_repair_levels),
                cmocka_unit_test_setup_teardown(test_wants, test_arena_setup, test_arena_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
