/*
 * Sparse slabs: a freed slot goes back to a sparse slab, past the caches, whatever other threads do to the slab
 * meanwhile.
 */
#include "tests/model/calls.h"
#include "tests/model/world.h"

/* Object 0 alone in a slab of four slots, which is sparse. Actors 0 and 1 cache, and have copied the epochs. */
static void pre(void) {
        world_init(4, 4, 0);
        world_set_caching(0, 0);
        world_set_caching(1, 0);
        world_set_capacity(1, 0, 4);
        world_set_capacity(2, 0, 4);
        world_set_capacity(1, 2, 2);
        world_set_capacity(2, 2, 2);
        world_fill_cache(1, 1, WORLD_SIZE_1);
        world_fill_cache(2, 1, WORLD_SIZE_1);
        world_object(WORLD_SIZE_4, 0);
        world_tidy();
}

/* Objects 0 and 1 in it: it becomes sparse by the free of one. */
static void pre_two(void) {
        pre();
        world_object(WORLD_SIZE_4, 0);
        world_tidy();
}

static void free_0(void) {
        world_free(0, 0);
}

static void also_free_0(void) {
        world_free(1, 0);
}

static void free_1(void) {
        world_free(1, 1);
}

static void alloc_4(void) {
        world_alloc(1, WORLD_SIZE_4, SHM_EPOCH_CURRENT);
}

static void thirdly_alloc_4(void) {
        world_alloc(2, WORLD_SIZE_4, SHM_EPOCH_CURRENT);
}

/* The slab was sparse all the time: no cache got the slot. */
static void post_uncached(unsigned dead) {
        world_check(dead);
        if (shm_arena_cache(&world_arena, 1, 0, 0)->count + shm_arena_cache(&world_arena, 2, 0, 0)->count !=
            0)
                model_fail("a slot of a sparse slab is in a cache");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "free-free", .pre = pre, .actors = { free_0, also_free_0 }, .post = post_uncached, .deaths = 2,
          .weak = true },
        { .name = "free-refill", .pre = pre, .actors = { free_0, alloc_4 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "free-claim", .pre = pre, .actors = { free_0, also_free_0, thirdly_alloc_4 }, .post = world_check,
          .deaths = 1, .preemptions = 3 },
        { .name = "becomes-sparse", .pre = pre_two, .actors = { free_0, free_1 }, .post = world_check, .deaths = 2,
          .weak = true },
};
/* clang-format on */
