/*
 * Control works while another actor writes a map. It takes an entry that was revoked out of the index, or repairs the
 * record of a thread that died in a delete, in front of each access in turn. In both cases it removes a node of the
 * index. Control may die, too: then the next one takes over from record 0. The change of the other actor is done,
 * unless it died, no other entry is lost, and the index has no needless node.
 */
#include "shm/arena/root.h"
#include "shm/map/entry/map-sweep.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "tests/model/map-world.h"

#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)

static void init(uint32_t epoch_a) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, MAP_HASH, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_entry(0, 'a', epoch_a);
        map_entry(1, 'b', 0);
        world_arena.header->roots[0].handle = map_root;
}

static void ready(void) {
        control_init();
        map_ready(4);
}

/* As a revocation leaves it. */
static void pre_stale(void) {
        uint64_t a;
        ShmMapKey key;
        ShmTrieCursor c;
        ShmMapView view;

        init(1);
        key = map_key(0);
        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        a = c.value;
        map_must(shm_object_free(&world_actors[1], a));
        ready();
}

static void t_sweep(void) {
        ShmMapSweep sweep = {};

        while (!shm_map_sweep_step(world_actor(2), &sweep, 1))
                ;
}

static void v_delete_a(void) {
        ShmMapKey key = map_key(0);

        (void) shm_map_delete(&world_actors[1], &map_tries[0], &key, 0);
}

static void pre_died(void) {
        init(0);
        ready();
        model_cut(v_delete_a);
        (void) shm_record_mark_dead(&world_arena, 1);
}

static void t_repair(void) {
        control_repair();
}

static void t1_insert_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t1_update_b(void) {
        map_put(1, 1, 'y', SHM_MAP_UPDATE, 0);
}

static void t1_delete_b(void) {
        map_delete(1, 1);
}

static void t1_get_b(void) {
        world.results[1] = map_get_by(&map_tries[1], 1) == 'b' ? 0 : -1;
}

/* `was` and `is`: the value that actor 1 changes, under key k. */
static void check(unsigned dead, unsigned k, char was, char is) {
        ShmActor control;
        char value;

        recover_records(&control, dead);
        map_check(3, 0);
        value = map_get(k);
        if (value != is && !((dead & 2) && value == was))
                model_fail("key %u: %d, result %d", k, value, world.results[1]);
        if (!(dead & 2) && world.results[1] != 0)
                model_fail("result %d", world.results[1]);
        if (k != 1 && map_get(1) != 'b')
                model_fail("b is %d", map_get(1));
}

static void post_insert_c(unsigned dead) {
        check(dead, 2, 0, 'c');
}

static void post_update_b(unsigned dead) {
        check(dead, 1, 'b', 'y');
}

static void post_delete_b(unsigned dead) {
        check(dead, 1, 'b', 0);
}

static void post_get_b(unsigned dead) {
        check(dead, 1, 'b', 'b');
}

#define SWEEP(_name, _t1, _post)                                                                             \
        {                                                                                                    \
                .name = _name, .pre = pre_stale, .actors = { t_nothing, _t1, t_sweep }, .post = _post,       \
                .deaths = 1, .preemptions = 2, .full_preemptions = 3                                         \
        }
#define REPAIR(_name, _t1, _post, _more...)                                                                  \
        {                                                                                                    \
                .name = _name, .pre = pre_died, .actors = { t_nothing, _t1, t_repair }, .post = _post,       \
                .variants = true, .preemptions = 1, .full_preemptions = 1, _more                             \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        SWEEP("sweep-insert", t1_insert_c, post_insert_c),
        SWEEP("sweep-update", t1_update_b, post_update_b),
        SWEEP("sweep-delete", t1_delete_b, post_delete_b),
        SWEEP("sweep-get", t1_get_b, post_get_b),
        REPAIR("repair-insert", t1_insert_c, post_insert_c, .full_only = true),
        REPAIR("repair-update", t1_update_b, post_update_b, .full_only = true),
        REPAIR("repair-delete", t1_delete_b, post_delete_b),
        REPAIR("repair-get", t1_get_b, post_get_b, .deaths = 1),
};
/* clang-format on */
