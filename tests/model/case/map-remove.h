/*
 * A map is removed, and its memory freed, while a thread is inside: it puts, replaces or deletes, or removes a node.
 * Any of the two may die. When another maintainer has ended the work, no object is left; and no call that begins after
 * the removal finds the map.
 */
#include "shm/arena/root.h"
#include "shm/map/state/map-remove.h"
#include "shm/map/state/tally.h"
#include "tests/model/map-world.h"

#define HASH_A MAP_HASH
#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)
#define HASH_B_DEEP (UINT64_C(1) << 58)

static void init(MapShape shape, uint64_t h1, uint64_t h2) {
        map_shape = shape;
        map_init(4, 0, HASH_A, h1, h2);
        map_shape = MAP_FIXED;
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                shm_map_attach(&map_tries[i]);
        map_entry(0, 'a', 0);
}

static void pre_one(void) {
        init(MAP_SHRINKS, HASH_B, HASH_C);
        map_ready(4);
}

static void pre_two(void) {
        init(MAP_SHRINKS, HASH_B, HASH_C);
        map_entry(1, 'b', 0);
        map_ready(4);
}

static void pre_deep(void) {
        init(MAP_SHRINKS, HASH_B_DEEP, HASH_C);
        map_entry(1, 'b', 0);
        map_ready(4);
}

static void pre_fixed(void) {
        init(MAP_FIXED, HASH_B, HASH_C);
        map_ready(4);
}

static void t0_insert_b(void) {
        map_put(0, 1, 'b', SHM_MAP_INSERT, 0);
}

static void t0_insert_c(void) {
        map_put(0, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t0_put_a(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t0_delete_a(void) {
        map_delete(0, 0);
}

/* The node of a and b is frozen for its removal, and renewed since c came. */
static void t0_delete_a_insert_c(void) {
        map_delete(0, 0);
        map_put(0, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t1_remove(void) {
        world.results[1] = shm_map_remove(world_actor(1), "map", 0);
        if (world.results[1] == 0 && map_get_by(&map_tries[1], 0) != -EIDRM)
                model_fail("a get after the removal is %d", map_get_by(&map_tries[1], 0));
        for (unsigned i = 0; i < 2; i++)
                while (!shm_map_drain_step(world_actor(1), i, 4))
                        ;
}

/* Another thread closes words as well: the maintainer died, and the next one began while it was repaired. */
static void post(unsigned dead) {
        uint64_t handle, live;

        map_repair(dead);
        if (shm_root_get(&world_arena, "map", &handle) == 0) {
                if (!(dead & 2))
                        model_fail("the map has its name");
                map_must(shm_map_remove(&world_actors[0], "map", 0));
        }
        for (uint32_t i = 0; i < 2; i++)
                while (!shm_map_drain_step(&world_actors[0], i, 100))
                        ;
        live = map_check_slots();
        if (live != 0)
                model_fail("%lu objects are left", (unsigned long) live);
        if (!(dead & 2) && world.results[1] != 0)
                model_fail("remove: %d", world.results[1]);
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -EIDRM)
                model_fail("result %d", world.results[0]);
        if (map_get_by(&map_tries[MODEL_ACTORS_MAX], 0) != -EIDRM)
                model_fail("the map is there");
        if (shm_root_n_free(&world_arena) != SHM_ROOTS_MAX)
                model_fail("an entry is taken");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "insert", .pre = pre_one, .actors = { t0_insert_b, t1_remove }, .post = post, .deaths = 2 },
        { .name = "insert-fixed", .pre = pre_fixed, .actors = { t0_insert_b, t1_remove }, .post = post, .deaths = 2 },
        { .name = "insert-beside", .pre = pre_two, .actors = { t0_insert_c, t1_remove }, .post = post, .deaths = 2 },
        { .name = "put", .pre = pre_two, .actors = { t0_put_a, t1_remove }, .post = post, .deaths = 2 },
        { .name = "delete", .pre = pre_deep, .actors = { t0_delete_a, t1_remove }, .post = post, .deaths = 2 },
        { .name = "delete-insert", .pre = pre_two, .actors = { t0_delete_a_insert_c, t1_remove }, .post = post,
          .deaths = 1 },
};
/* clang-format on */
