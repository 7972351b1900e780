#include "daemon/work/epoch-count.h"

#include "shm/epoch/epoch-close.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

/*
 * A count is that of the closed era alone, in steps of one slab; bits of the set may stand for other slabs.
 */
static void test_steps(void **state) {
        TestArena *t = *state;
        uint32_t epoch = shm_epoch_number(1, 0), n_steps = 1;
        EpochCount count = { .epoch = 1 };

        for (int i = 0; i < 20; i++)
                (void) test_alloc(t, 816, epoch);
        (void) test_alloc(t, 64, epoch);
        (void) test_alloc(t, 816, shm_epoch_number(2, 0));
        for (uint32_t slab = 0; slab < 64; slab++)
                shm_set_add(&t->arena, shm_set_of_epoch(&t->arena, 1), slab);
        assert_true(epoch_count_step(&count, &t->arena, UINT32_MAX));
        assert_int_equal(count.live_objects, 0);

        assert_int_equal(shm_epoch_close(&t->arena, epoch, true), 0);
        count = (EpochCount){ .epoch = 1 };
        while (!epoch_count_step(&count, &t->arena, 1))
                n_steps++;
        assert_true(n_steps >= shm_arena_n_slabs_ever(&t->arena));
        assert_int_equal(count.live_objects, 21);
        assert_int_equal(count.classes[0], 1);
        assert_int_equal(count.classes[shm_arena_class(&t->arena, 816)], 20);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_steps, test_arena_setup, test_arena_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
