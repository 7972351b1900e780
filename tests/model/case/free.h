/* Frees: one of two wins; a slab at the empty boundary, or full, loses nothing and stays findable. */
#include "tests/model/world.h"

/* Object 0 alone in its slab. */
static void pre_last(void) {
        world_init(2, 1, 0);
        world_object(WORLD_SIZE_2, 0);
}

/* Objects 0 and 1 fill a slab, no other is committed. */
static void pre_full(void) {
        world_init(2, 1, 0);
        world_objects(2, WORLD_SIZE_2, 0);
}

static void pre_full_tidy(void) {
        pre_full();
        world_tidy();
}

static void pre_last_tidy(void) {
        pre_last();
        world_tidy();
}

/* Object 0 fills a slab. */
static void pre_full_one(void) {
        world_init(2, 1, 0);
        world_object(WORLD_SIZE_1, 0);
}

static void free_0(void) {
        world_free(0, 0);
}

static void also_free_0(void) {
        world_free(1, 0);
}

static void thirdly_free_0(void) {
        world_free(2, 0);
}

static void free_1(void) {
        world_free(1, 1);
}

static void thirdly_free_1(void) {
        world_free(2, 1);
}

static void alloc_2(void) {
        world_alloc(1, WORLD_SIZE_2, 0);
}

static void thirdly_alloc_2(void) {
        world_alloc(2, WORLD_SIZE_2, 0);
}

static void alloc_1(void) {
        world_alloc(1, WORLD_SIZE_1, 0);
}

static void alloc_4(void) {
        world_alloc(2, WORLD_SIZE_4, 0);
}

static void alloc_and_free(void) {
        if (world_alloc(1, WORLD_SIZE_2, 0) == 0)
                world_free(1, world_allocated(1, 0));
}

static void free_and_alloc(void) {
        world_free(0, 0);
        world_alloc(0, WORLD_SIZE_2, 0);
}

/* Where a slot was free throughout, an allocation succeeds. */
static void post_allocated(unsigned dead) {
        world_check(dead);
        if (dead == 0 && world.objects[world_allocated(1, 0)].error != 0)
                model_fail("no memory, though there was");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "free-free", .pre = pre_last, .actors = { free_0, also_free_0 },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "free-free-free", .pre = pre_full, .actors = { free_0, also_free_0, thirdly_free_0 },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "claim-give-back", .pre = pre_last, .actors = { free_0, alloc_2 },
          .post = post_allocated, .deaths = 2, .weak = true },
        { .name = "list", .pre = pre_full, .actors = { free_0, alloc_2 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "list-one-slot", .pre = pre_full_one, .actors = { free_0, alloc_1 },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "claim-give-back-tidy", .pre = pre_last_tidy, .actors = { free_0, alloc_2 },
          .post = post_allocated,
          .deaths = 2, .weak = true },
        { .name = "free-free-tidy", .pre = pre_last_tidy, .actors = { free_0, also_free_0 },
          .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "empty-tidy", .pre = pre_full_tidy, .actors = { free_0, free_1, alloc_4 },
          .post = world_check,
          .deaths = 1 },
        { .name = "bounce", .pre = pre_full, .actors = { free_and_alloc, alloc_and_free },
          .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "empty", .pre = pre_full, .actors = { free_0, free_1, alloc_4 },
          .post = world_check, .deaths = 1 },
        { .name = "alloc-free-free", .pre = pre_full, .actors = { free_0, free_1, thirdly_alloc_2 },
          .post = world_check,
          .deaths = 1 },
        { .name = "alloc-alloc-free", .pre = pre_full, .actors = { free_0, alloc_2, thirdly_alloc_2 },
          .post = world_check, .deaths = 1 },
        { .name = "reuse-free-free", .pre = pre_last, .actors = { free_0, alloc_and_free, thirdly_free_0 },
          .post = world_check, .deaths = 1 },
        { .name = "bounce-free", .pre = pre_full,
          .actors = { free_and_alloc, alloc_and_free, thirdly_free_1 },
          .post = world_check, .deaths = 1, .preemptions = 4 },
};
/* clang-format on */
