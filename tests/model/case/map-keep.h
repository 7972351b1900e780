/*
 * After a delete, threads leave a path of the index as it is, since the key may be put again. The path of a and b forks
 * in one node. Other calls find their entries meanwhile, and once the threads have ended no needless node is left.
 */
#include "shm/map/trie/trie-shrink.h"
#include "tests/model/map-world.h"

#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)

static void pre_two(void) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, MAP_HASH, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_entry(0, 'a', 0);
        map_entry(1, 'b', 0);
        for (unsigned i = 0; i < 2; i++)
                world_actor(i)->keeps_path = true;
        map_ready(4);
}

/* Actor 0 has deleted a. */
static void pre_kept(void) {
        pre_two();
        map_delete(0, 0);
        if (world_actor(0)->kept.note == 0)
                model_fail("no path is kept");
        map_ready(4);
}

static void t0_delete_put_a(void) {
        map_delete(0, 0);
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t0_delete_a(void) {
        map_delete(0, 0);
}

static void t0_put_a(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t0_delete_b(void) {
        map_delete(0, 1);
}

static void t0_settle(void) {
        shm_trie_settle(world_actor(0));
}

static void t1_delete_b(void) {
        map_delete(1, 1);
}

static void t1_delete_put_b(void) {
        map_delete(1, 1);
        map_put(1, 1, 'y', SHM_MAP_PUT, 0);
}

static void t1_insert_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t1_get_b(void) {
        world.results[1] = map_get_by(&map_tries[1], 1);
}

/* Threads that live end. Nothing is left over. */
static void check(unsigned dead) {
        map_repair(dead);
        for (unsigned i = 0; i < 2; i++)
                if (!(dead >> i & 1))
                        shm_trie_settle(world_actor(i));
        map_check(3, 0);
}

static void post(unsigned dead) {
        check(dead);
}

static void post_put_a(unsigned dead) {
        check(dead);
        if (!(dead & 1) && (world.results[0] != 0 || map_get(0) != 'x'))
                model_fail("put: %d", world.results[0]);
}

static void post_get_b(unsigned dead) {
        check(dead);
        if (!(dead & 2) && world.results[1] != 'b')
                model_fail("get: %d", world.results[1]);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "delete-put-delete", .pre = pre_two, .actors = { t0_delete_put_a, t1_delete_b },
          .post = post_put_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "put-delete-put", .pre = pre_kept, .actors = { t0_put_a, t1_delete_put_b },
          .post = post_put_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "put-insert", .pre = pre_kept, .actors = { t0_put_a, t1_insert_c },
          .post = post_put_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "delete-delete", .pre = pre_two, .actors = { t0_delete_a, t1_delete_b },
          .post = post, .deaths = 2, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "delete-second-insert", .pre = pre_kept, .actors = { t0_delete_b, t1_insert_c },
          .post = post, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "settle-delete", .pre = pre_kept, .actors = { t0_settle, t1_delete_b },
          .post = post, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "delete-get", .pre = pre_two, .actors = { t0_delete_put_a, t1_get_b },
          .post = post_get_b, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
};
/* clang-format on */
