#include "daemon/request/map-info.h"

#include <sys/stat.h>

#include "shm/arena/root.h"
#include "shm/map/entry/map.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/wait.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static blkcnt_t blocks(const TestArena *t) {
        struct stat st;

        assert_int_equal(fstat(t->arena.fd, &st), 0);
        return st.st_blocks;
}

/*
 * `look` must not touch entries of names that were never used, nor states of maps that never existed: the kernel would
 * make pages for them.
 */
static void expect_no_pages(TestArena *t, void (*look)(ShmArena *arena)) {
        blkcnt_t before;

        assert_int_equal(shm_root_set(&t->arena, SHM_MAPS_ROOT, 0, 5), 0);
        t->arena.header->n_miscounts = 1;
        t->arena.header->maps[0].roughly = 0;
        before = blocks(t);
        look(&t->arena);
        assert_int_equal(blocks(t), before);
}

static void look_for_maps(ShmArena *arena) {
        (void) map_info_set(arena);
}

static void count_again(ShmArena *arena) {
        shm_map_count_again(arena, 1);
}

static void test_maps_without_pages(void **state) {
        expect_no_pages(*state, look_for_maps);
}

static void test_wake_without_pages(void **state) {
        expect_no_pages(*state, shm_wait_wake_all);
}

static void test_count_without_pages(void **state) {
        expect_no_pages(*state, count_again);
}

static void test_set_of_maps(void **state) {
        TestArena *t = *state;
        ShmMapSet set;

        assert_int_equal(shm_root_set(&t->arena, SHM_MAPS_ROOT, 0, 5), 0);
        assert_int_equal(shm_root_set(&t->arena, "other", 0, 6), 0);
        assert_int_equal(shm_root_set(&t->arena, "map.first", 0, 7), 0);
        assert_int_equal(shm_root_set(&t->arena, "map.last", 0, 8), 0);
        assert_int_equal(shm_root_set(&t->arena, "other", 6, 0), 0);
        set = map_info_set(&t->arena);
        assert_false(shm_map_set_has(&set, 1));
        assert_true(shm_map_set_has(&set, 2) && shm_map_set_has(&set, 3));
        assert_int_equal(shm_map_set_next(&set, 4), SHM_ROOTS_MAX);
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_ARENA(test_maps_without_pages),
                ON_ARENA(test_wake_without_pages),
                ON_ARENA(test_count_without_pages),
                ON_ARENA(test_set_of_maps),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
