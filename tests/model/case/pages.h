/* Slabs are made and dropped by their holder alone, and are found afterwards. */
#include <errno.h>

#include "shm/slab/free-count.h"
#include "shm/slab/pages.h"
#include "tests/model/world.h"

static void pre_free(void) {
        world_init(1, 1, 0);
        world_set_control(0);
}

static void pre_two_free(void) {
        world_init(2, 2, 0);
        world_set_control(0);
}

/* Object 0 alone in slab 0. */
static void pre_last(void) {
        world_init(1, 1, 0);
        world_object(WORLD_SIZE_2, 0);
        world_tidy();
        world_set_control(0);
}

/* Slab 0 was dropped, and may be made again. */
static void pre_dropped(void) {
        world_init(1, 1, 64);
        shm_pages_drop(&world_actors[0], 0, 1);
}

static void pre_two_dropped(void) {
        world_init(2, 2, 64);
        shm_pages_drop(&world_actors[0], 0, 3);
        world_set_control(0);
}

/* With pages that a stale pointer has made. */
static void pre_surplus(void) {
        pre_two_dropped();
        world_arena.slabs[0] = 1;
        world_arena.slabs[SHM_SLAB_SIZE] = 1;
}

/* Slabs that never were; room for three, or for two. */
static void pre_three(void) {
        world_init(3, 0, 1000);
}

/* The second has a page by a stale pointer of old. */
static void pre_three_surplus(void) {
        pre_three();
        world_set_control(0);
        world_arena.slabs[SHM_SLAB_SIZE] = 1;
}

static void pre_three_counted(void) {
        pre_three();
        world_set_control(0);
}

static void pre_two(void) {
        world_init(2, 0, 1000);
}

static void pre_two_interrupted(void) {
        pre_two();
        world.populate_errno = EINTR;
        world.n_populate_errors = 1;
}

static void pre_two_denied(void) {
        pre_two();
        world.populate_errno = ENOMEM;
        world.n_populate_errors = 1;
}

static void drop(void) {
        shm_pages_drop(world_actor(0), 0, 3);
}

static void also_drop(void) {
        shm_pages_drop(world_actor(1), 0, 3);
}

static void drop_2(void) {
        shm_pages_drop(world_actor(2), 0, 3);
}

static void drop_surplus(void) {
        shm_pages_drop_surplus(world_actor(0));
}

/* Without those of tags. */
static void drop_surplus_slabs(void) {
        ShmSurplus surplus = { .tags_position = UINT32_MAX };

        shm_pages_drop_surplus_step(world_actor(0), &surplus, UINT32_MAX);
}

static void commit_one(ShmActor *a) {
        uint32_t n;

        shm_actor_enter(a);
        (void) shm_pages_commit(a, 1, &n);
        shm_actor_leave(a);
}

static void commit(void) {
        commit_one(world_actor(0));
}

static void also_commit(void) {
        commit_one(world_actor(1));
}

static void commit_three(void) {
        ShmActor *a = world_actor(1);
        uint32_t n;

        shm_actor_enter(a);
        (void) shm_pages_commit(a, 3, &n);
        shm_actor_leave(a);
}

static void alloc_0(void) {
        world_alloc(0, WORLD_SIZE_2, 0);
}

static void alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, 0);
}

static void alloc_2(void) {
        world_alloc(2, WORLD_SIZE_2, 0);
}

static void alloc_and_free(void) {
        if (world_alloc(1, WORLD_SIZE_2, 0) == 0)
                world_free(1, world_allocated(1, 0));
}

static void free_0(void) {
        world_free(1, 0);
}

static void free_0_alloc(void) {
        world_free(1, 0);
        world_alloc(1, WORLD_SIZE_2, 0);
}

static void recount(void) {
        (void) shm_free_recount(&world_arena);
}

/* It is off by no more than what other threads had changed, and not yet counted, while the slabs were counted. */
static void check_n_free(int64_t low, int64_t high) {
        uint64_t *n_free = &world_arena.header->n_free.value;
        int64_t n = (int64_t) shm_load_rlx(n_free);

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                n -= slab_word_state(shm_slab_word(&world_arena, slab)) == SLAB_FREE;
        if (n < low || n > high)
                model_fail("n_free is off by %ld", (long) n);
        shm_sub_acqrel(n_free, (uint64_t) n); /* as the check of all has it */
}

/* Another thread makes three slabs. */
static void post_recount(unsigned dead) {
        check_n_free(0, 3);
        world_check(dead);
}

/* Yet another one takes one of them, or makes some for itself. */
static void post_recount_alloc(unsigned dead) {
        check_n_free(-1, 3);
        world_check(dead);
}

static void check_allowance(unsigned dead, uint64_t n) {
        world_check(dead);
        if (dead == 0 && world_arena.header->commit_allowance.value > n)
                model_fail("the allowance has grown to %lu",
                           (unsigned long) world_arena.header->commit_allowance.value);
}

static void post_1000(unsigned dead) {
        check_allowance(dead, 1000);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "reclaim", .pre = pre_free, .actors = { drop, alloc_1 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "reclaim-two", .pre = pre_two_free, .actors = { drop, alloc_1 },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "reclaim-bounce", .pre = pre_free, .actors = { drop, alloc_and_free },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "reclaim-last", .pre = pre_last, .actors = { drop, free_0 }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "reclaim-last-alloc", .pre = pre_last, .actors = { drop, free_0_alloc },
          .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "reclaim-reclaim", .pre = pre_two_free, .actors = { drop, also_drop },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "reclaim-reclaim-alloc", .pre = pre_free, .actors = { drop, also_drop, alloc_2 },
          .post = world_check,
          .deaths = 1 },
        { .name = "commit-commit", .pre = pre_three, .actors = { commit, also_commit },
          .post = post_1000, .deaths = 2 },
        { .name = "alloc-alloc", .pre = pre_two, .actors = { alloc_0, alloc_1 }, .post = post_1000,
          .deaths = 1 },
        { .name = "alloc-alloc-interrupted", .pre = pre_two_interrupted, .actors = { alloc_0, alloc_1 },
          .post = post_1000,
          .deaths = 1 },
        { .name = "alloc-alloc-denied", .pre = pre_two_denied, .actors = { alloc_0, alloc_1 },
          .post = post_1000,
          .deaths = 1 },
        { .name = "commit-surplus", .pre = pre_three_surplus, .actors = { drop_surplus, commit_three },
          .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "again", .pre = pre_dropped, .actors = { commit, also_commit }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "again-alloc", .pre = pre_dropped, .actors = { alloc_0, alloc_1 },
          .post = world_check, .deaths = 1 },
        { .name = "again-reclaim", .pre = pre_two_dropped, .actors = { drop, alloc_1 },
          .post = world_check, .deaths = 1 },
        { .name = "again-surplus", .pre = pre_surplus, .actors = { drop_surplus, also_commit },
          .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "again-surplus-alloc", .pre = pre_surplus, .actors = { drop_surplus_slabs, also_commit, alloc_2 },
          .post = world_check, .deaths = 1 },
        { .name = "recount", .pre = pre_three_counted, .actors = { recount, commit_three }, .post = post_recount,
          .weak = true },
        { .name = "recount-alloc", .pre = pre_three_counted, .actors = { recount, commit_three, alloc_2 },
          .post = post_recount_alloc, .preemptions = 3, .full_preemptions = 4 },
        { .name = "commit-commit-reclaim", .pre = pre_two, .actors = { commit, also_commit, drop_2 },
          .post = world_check,
          .deaths = 1 },
};
/* clang-format on */
