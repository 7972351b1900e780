/* Two allocations never get the same slot, and both get one where there are two. */
#include <errno.h>

#include "tests/model/world.h"

static void pre_two_free(void) {
        world_init(2, 1, 0);
        world_objects(2, WORLD_SIZE_4, 0);
}

static void pre_one_free(void) {
        world_init(2, 1, 0);
        world_objects(3, WORLD_SIZE_4, 0);
}

static void pre_one_slab(void) {
        world_init(2, 1, 0);
}

static void t0(void) {
        world_alloc(0, WORLD_SIZE_4, 0);
}

static void t1(void) {
        world_alloc(1, WORLD_SIZE_4, 0);
}

static void t1_other_class(void) {
        world_alloc(1, WORLD_SIZE_2, 0);
}

static void t2(void) {
        world_alloc(2, WORLD_SIZE_4, 0);
}

static void post(unsigned dead, int n_successes) {
        int n = 0;

        world_check(dead);
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                n += world.objects[world_allocated(i, 0)].handle != 0;
        if (dead == 0 && n != n_successes)
                model_fail("%d allocations of %d", n, n_successes);
}

static void post_one(unsigned dead) {
        post(dead, 1);
}

static void post_two(unsigned dead) {
        post(dead, 2);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "two-free", .pre = pre_two_free, .actors = { t0, t1 }, .post = post_two, .deaths = 1, .weak = true },
        { .name = "one-free", .pre = pre_one_free, .actors = { t0, t1 }, .post = post_one, .deaths = 1, .weak = true },
        { .name = "one-slab", .pre = pre_one_slab, .actors = { t0, t1 }, .post = post_two, .deaths = 1, .weak = true },
        { .name = "one-slab-two-classes", .pre = pre_one_slab, .actors = { t0, t1_other_class },
          .post = post_one, .deaths = 1, .weak = true },
        { .name = "three-for-two", .pre = pre_two_free, .actors = { t0, t1, t2 }, .post = post_two,
          .deaths = 1 },
};
/* clang-format on */
