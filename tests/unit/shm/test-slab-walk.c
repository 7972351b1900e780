#include "shm/slab/slab-walk.h"

#include <stdlib.h>

#include "shm/slab/pages.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_SLABS 16384U
#define EVER 13000U /* in the middle of a group, and of 64 groups */

static int setup(void **state) {
        ShmGeometry geometry = test_geometry();
        TestArena *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        geometry.slabs_size = (uint64_t) N_SLABS * SHM_SLAB_SIZE;
        test_arena_init(t, &geometry);
        t->arena.header->n_slabs_ever.value = EVER;
        *state = t;
        return 0;
}

/* The sum of the slabs that a walk in steps of `budget` visits, each squared: order and doubles show. */
static uint64_t walk_all(const ShmArena *arena, uint32_t set, uint32_t budget, uint32_t *ret_n) {
        uint64_t sum = 0;
        uint32_t slab, n_steps = 0;
        ShmSlabWalk walk;
        SlabWord w;

        *ret_n = 0;
        shm_slab_walk_begin(&walk, arena, set);
        while (!shm_slab_walk_done(&walk)) {
                uint32_t n_left = budget;

                while (shm_slab_walk_next(&walk, arena, &n_left, &slab, &w)) {
                        assert_true(slab < EVER);
                        sum += (uint64_t) slab * slab;
                        (*ret_n)++;
                }
                assert_true(n_left == 0 || shm_slab_walk_done(&walk));
                assert_true(++n_steps <= N_SLABS + N_SLABS / 64);
        }
        return sum;
}

/* The same by groups. */
static uint64_t walk_groups(const ShmArena *arena, uint32_t set, uint32_t budget, uint32_t *ret_n) {
        uint64_t sum = 0, mask;
        uint32_t group;
        ShmSlabWalk walk;

        *ret_n = 0;
        shm_slab_walk_begin(&walk, arena, set);
        while (!shm_slab_walk_done(&walk)) {
                uint32_t n_left = budget;

                while (shm_slab_walk_group(&walk, arena, &n_left, &group, &mask))
                        for (; mask != 0; mask &= mask - 1, (*ret_n)++) {
                                uint64_t slab = group * 64 + (uint32_t) __builtin_ctzll(mask);

                                sum += slab * slab;
                        }
        }
        return sum;
}

static void expect(const ShmArena *arena, uint32_t set, uint64_t sum, uint32_t n) {
        static const uint32_t budgets[] = { 1, 2, 63, 64, 65, 4096, UINT32_MAX };
        uint32_t n_seen;

        for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
                assert_int_equal(walk_all(arena, set, budgets[i], &n_seen), sum);
                assert_int_equal(n_seen, n);
                assert_int_equal(walk_groups(arena, set, budgets[i], &n_seen), sum);
                assert_int_equal(n_seen, n);
        }
}

static void test_members(void **state) {
        TestArena *t = *state;
        static const uint32_t slabs[] = {
                0, 1, 63, 64, 4095, 4096, 8255, 12287, EVER - 1, EVER, N_SLABS - 1
        };
        uint32_t set = shm_set_of_epoch(&t->arena, 1), n = 0;
        uint64_t sum = 0;

        expect(&t->arena, set, 0, 0);
        for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++) {
                shm_set_add(&t->arena, set, slabs[i]);
                sum += slabs[i] < EVER ? (uint64_t) slabs[i] * slabs[i] : 0;
                n += slabs[i] < EVER;
                expect(&t->arena, set, sum, n);
        }
}

static void test_all(void **state) {
        TestArena *t = *state;
        uint64_t sum = 0;
        uint32_t n = 0;

        shm_set_add_mask(&t->arena, SHM_SET_UNCOMMITTED, 0, UINT64_MAX);
        shm_set_add_mask(&t->arena, SHM_SET_UNCOMMITTED, 5, UINT64_MAX);
        shm_set_add_mask(&t->arena, SHM_SET_UNCOMMITTED, 6, UINT64_MAX - 1);
        for (uint64_t slab = 0; slab < EVER; slab++)
                if (slab / 64 != 0 && slab / 64 != 5) {
                        sum += slab * slab;
                        n++;
                }
        expect(&t->arena, SHM_SLAB_WALK_ALL, sum, n);
        t->arena.header->n_slabs_ever.value = 0;
        expect(&t->arena, SHM_SLAB_WALK_ALL, 0, 0);
}

/* Bits above that stand for nothing cost budget, like all else. */
static void test_lies(void **state) {
        TestArena *t = *state;
        uint32_t set = shm_set_of_epoch(&t->arena, 1), n_left = 100, slab;
        ShmSlabWalk walk;
        SlabWord w;

        for (uint32_t group = 0; group < N_SLABS / 64; group++) {
                shm_set_add_mask(&t->arena, set, group, 1);
                t->arena.sets[set * t->arena.shape.stride + t->arena.shape.level_off[2] + group] = 0;
        }
        shm_slab_walk_begin(&walk, &t->arena, set);
        assert_false(shm_slab_walk_next(&walk, &t->arena, &n_left, &slab, &w));
        assert_int_equal(walk.position, 100 * 64);
        expect(&t->arena, set, 0, 0);
}

/* In stretches, whose ends are anywhere. */
static void test_end(void **state) {
        TestArena *t = *state;
        uint32_t slab, next = 0, n_left = UINT32_MAX;
        ShmSlabWalk walk;
        SlabWord w;

        shm_slab_walk_begin(&walk, &t->arena, SHM_SLAB_WALK_ALL);
        assert_int_equal(walk.end, EVER);
        for (walk.end = 100; walk.end <= EVER; walk.end += 100) {
                while (shm_slab_walk_next(&walk, &t->arena, &n_left, &slab, &w))
                        assert_int_equal(slab, next++);
                assert_true(shm_slab_walk_done(&walk));
                assert_int_equal(walk.position, walk.end);
        }
        assert_int_equal(next, EVER);
}

/* The word is that of the slab, and no page is made by a walk over holes. */
static void test_word(void **state) {
        TestArena *t = *state;
        uint32_t slab, n, n_left = UINT32_MAX;
        uint64_t before;
        ShmSlabWalk walk;
        SlabWord w;

        t->arena.header->n_slabs_ever.value = 0;
        assert_int_equal(shm_pages_commit(&t->control, 3, &n), 0);
        (void) test_alloc(t, 64, 1);
        before = shm_arena_resident_size(&t->arena);
        shm_slab_walk_begin(&walk, &t->arena, SHM_SLAB_WALK_ALL);
        for (uint32_t i = 0; i < 3; i++) {
                assert_true(shm_slab_walk_next(&walk, &t->arena, &n_left, &slab, &w));
                assert_int_equal(slab, i);
                assert_memory_equal(&w, &t->arena.lines[i].word, sizeof(w));
        }
        assert_false(shm_slab_walk_next(&walk, &t->arena, &n_left, &slab, &w));
        assert_int_equal(shm_arena_resident_size(&t->arena), before);
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_ARENA(test_members), ON_ARENA(test_all),  ON_ARENA(test_lies),
                ON_ARENA(test_end),     ON_ARENA(test_word),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
