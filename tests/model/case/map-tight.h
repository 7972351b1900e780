/*
 * Puts into a pool that has one empty slab, and one slot for a leaf in a slab of other objects. The index is in epoch
 * 1, and values are in epoch 0. b is put next to a, below a new node. If the leaf took the empty slab, there is none
 * for the node: so the put is tried once more, and spares free slabs.
 */
#include "tests/model/map-world.h"

#define HASH_A MAP_HASH
#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)
#define N_SLABS 4

static unsigned n_others; /* objects that are no map's */

/* `more`: c is there, too. */
static void init(bool more) {
        unsigned n_beside_index;

        map_shape = MAP_SHRINKS;
        map_init(N_SLABS, 1, HASH_A, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_entry(0, 'a', 0);
        if (more)
                map_entry(2, 'c', 0);
        n_others = map_make_tight(&n_beside_index);
        n_others += n_beside_index;
}

static void pre(void) {
        init(false);
        map_ready(N_SLABS);
}

/* c is beside a: the node is there, and b needs none. */
static void pre_two(void) {
        init(true);
        map_ready(N_SLABS);
}

static void t0_put_b(void) {
        map_put(0, 1, 'x', SHM_MAP_PUT, 0);
}

static void t1_put_b(void) {
        map_put(1, 1, 'y', SHM_MAP_PUT, 0);
}

static void t1_insert_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t1_update_a(void) {
        map_put(1, 0, 'y', SHM_MAP_UPDATE, 0);
}

static void t1_delete_a(void) {
        map_delete(1, 0);
}

static void t1_delete_c(void) {
        map_delete(1, 2);
}

/* Others' memory comes and goes; nobody notes it. */
static void t1_alloc_free(void) {
        uint64_t handle;

        world.results[1] = shm_object_alloc(world_actor(1), 64, 0, NULL, &handle, NULL);
        if (world.results[1] == 0)
                (void) shm_object_free(world_actor(1), handle);
}

static void t_nothing(void) {
}

/* Nothing is lost nor doubled. */
static void check(unsigned dead) {
        map_repair(dead);
        map_check(3, n_others);
        for (unsigned i = 0; i < 2; i++)
                if (!(dead >> i & 1) && world.results[i] != 0 && world.results[i] != -ENOMEM &&
                    world.results[i] != 99)
                        model_fail("actor %u: %d", i, world.results[i]);
}

/* A put that failed has changed nothing. */
static void check_put(unsigned dead, unsigned actor, unsigned k, char was, char is) {
        char value = map_get(k);

        if (dead >> actor & 1 ? value != was && value != is : value != (world.results[actor] == 0 ? is : was))
                model_fail("actor %u: %d, key %u: %d", actor, world.results[actor], k, value);
}

static void post_put(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
        if (map_get(0) != 'a')
                model_fail("a is %d", map_get(0));
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("put %d", world.results[0]);
}

static void post_put_put(unsigned dead) {
        char b;

        check(dead);
        b = map_get(1);
        if (b != 0 && b != 'x' && b != 'y')
                model_fail("b is %d", b);
        if (dead == 0 && b == 0 && (world.results[0] == 0 || world.results[1] == 0))
                model_fail("a put is lost");
        if (map_get(0) != 'a')
                model_fail("a is %d", map_get(0));
}

static void post_insert_c(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
        check_put(dead, 1, 2, 0, 'c');
}

static void post_update_a(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
        check_put(dead, 1, 0, 'a', 'y');
}

static void post_delete_a(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
        check_put(dead, 1, 0, 'a', 0);
}

static void post_delete_c(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
        check_put(dead, 1, 2, 'c', 0);
}

static void post_alloc_free(unsigned dead) {
        check(dead);
        check_put(dead, 0, 1, 0, 'x');
}

#define TWO(pre_, t1, post_, n_deaths)                                                                       \
        .pre = pre_, .actors = { t0_put_b, t1 }, .post = post_, .deaths = n_deaths, .preemptions = 2,        \
        .full_preemptions = 3

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "put", TWO(pre, t_nothing, post_put, 1), .weak = true },
        { .name = "put-put", TWO(pre, t1_put_b, post_put_put, 1) },
        { .name = "put-insert", TWO(pre, t1_insert_c, post_insert_c, 1) },
        { .name = "put-update", TWO(pre, t1_update_a, post_update_a, 1) },
        { .name = "put-delete", TWO(pre, t1_delete_a, post_delete_a, 1) },
        { .name = "put-shrink", TWO(pre_two, t1_delete_c, post_delete_c, 1) },
        { .name = "put-alloc", TWO(pre, t1_alloc_free, post_alloc_free, 0) },
};
/* clang-format on */
