/*
 * Control trims the pool, so that no slab that is FREE keeps its pages, while other actors change a map: their leaves
 * and nodes take slabs, and give slabs back, that are dropped and made again meanwhile. Any actor may die. The change
 * is done, unless its actor died, or found no memory, and no other entry is lost.
 */
#include "shm/slab/pages.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "tests/model/map-world.h"

#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)

static void begin(uint64_t n_allowed) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, MAP_HASH, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_entry(0, 'a', 1); /* alone in its slab */
        map_entry(1, 'b', 0);
        world_arena.header->roots[0].handle = map_root;
        world_arena.header->commit_allowance.value = n_allowed;
        control_init();
        map_ready(4);
}

static void pre(void) {
        begin(64);
}

static void pre_none(void) {
        begin(0);
}

static void t0_insert_c(void) {
        map_put(0, 2, 'c', SHM_MAP_INSERT, 1);
}

static void t0_update_a(void) {
        map_put(0, 0, 'x', SHM_MAP_UPDATE, 1);
}

static void t0_delete_a(void) {
        map_delete(0, 0);
}

static void t1_delete_b(void) {
        map_delete(1, 1);
}

static void t_trim(void) {
        (void) shm_pages_trim(world_actor(2), 0, UINT32_MAX);
        (void) shm_pages_drop_surplus(world_actor(2));
}

/* `was` and `is`: the value that actor 0 changes, under key k. */
static void check(unsigned dead, unsigned k, char was, char is) {
        bool failed = world.results[0] == -ENOMEM, deleted = world.results[1] == 0;
        ShmActor control;
        char value;

        recover_records(&control, dead);
        map_check(3, 0);
        value = map_get(k);
        if (value != is && !((failed || (dead & 1)) && value == was))
                model_fail("key %u: %d, result %d", k, value, world.results[0]);
        if (!(dead & 1) && world.results[0] != 0 && !(failed && is != 0))
                model_fail("result %d", world.results[0]);
        if (map_get(1) != (deleted ? 0 : 'b') && !(dead & 2))
                model_fail("b is %d", map_get(1));
        if (k != 0 && map_get(0) != 'a')
                model_fail("a is %d", map_get(0));
}

static void post_insert_c(unsigned dead) {
        check(dead, 2, 0, 'c');
}

static void post_update_a(unsigned dead) {
        check(dead, 0, 'a', 'x');
}

static void post_delete_a(unsigned dead) {
        check(dead, 0, 'a', 0);
}

#define TRIM(_name, _pre, _t0, _t1, _post, _more...)                                                         \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1, t_trim }, .post = _post, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        TRIM("insert", pre, t0_insert_c, t_nothing, post_insert_c, .deaths = 1, .preemptions = 2,
             .full_preemptions = 3),
        TRIM("insert-no-memory", pre_none, t0_insert_c, t_nothing, post_insert_c, .deaths = 1, .preemptions = 2,
             .full_preemptions = 3),
        TRIM("update", pre, t0_update_a, t_nothing, post_update_a, .deaths = 1, .preemptions = 2,
             .full_preemptions = 3),
        TRIM("delete", pre, t0_delete_a, t_nothing, post_delete_a, .deaths = 1, .preemptions = 2,
             .full_preemptions = 3),
        TRIM("update-delete", pre, t0_update_a, t1_delete_b, post_update_a, .preemptions = 1,
             .full_preemptions = 2),
};
/* clang-format on */
