/*
 * Sums over slabs: the daemon counts slabs that changed since its last count, beside threads that change them. When all
 * have stood still, and the slabs are repaired that intents of the dead name, each slab that the daemon would count
 * otherwise now has a mark.
 */
#include "shm/maintain/hints.h"
#include "shm/slab/changed.h"
#include "shm/stats/stats.h"
#include "tests/model/world.h"

/* The counting actor's own. world.notes[0] has the content of `seen` after its last whole count. */
static ShmSlabSums sums;
static ShmSlabSum sums_of[SHM_EPOCHS_MAX * SHM_CLASSES_MAX];
static uint32_t seen[2];
static ShmEraSum eras[WORLD_N_EPOCHS * (SLAB_ERA_BITS + 1)];

static void sums_begin(void) {
        memset(seen, 0, sizeof(seen));
        memset(eras, 0, sizeof(eras));
        memset(sums_of, 0, sizeof(sums_of));
        sums = (ShmSlabSums){ .arena = &world_arena, .seen = seen, .eras = eras, .of = sums_of };
}

/* Counts the slabs that changed, and none besides. */
static void count_changed(void) {
        ShmSumsWalk walk = {};
        uint32_t budget = UINT32_MAX;

        (void) shm_slab_sums_step(&walk, &sums, &budget);
        world.notes[0] = seen[0] | (uint64_t) seen[1] << 32;
}

static void pre_counted(uint32_t n_objects) {
        world_init(2, 2, 0);
        world_objects(n_objects, WORLD_SIZE_2, 0);
        world_tidy();
        sums_begin();
        count_changed();
        model_own(1, &sums, sizeof(sums));
        model_own(1, sums_of, world_arena.n_classes * sizeof(sums_of[0]));
        model_own(1, seen, sizeof(seen));
        model_own(1, eras, 4 * sizeof(eras[0]));
}

static void pre_one(void) {
        pre_counted(1);
}

static void pre_two(void) {
        pre_counted(2);
}

/* The mark is there already: the thread that looks at it may see it just before it is cleared. */
static void pre_marked(void) {
        pre_one();
        shm_changed_mark(&world_arena, 0);
}

static void t_count(void) {
        count_changed();
}

static void t_count_twice(void) {
        count_changed();
        count_changed();
}

static void free_0(void) {
        world_free(0, 0);
}

static void free_1(void) {
        world_free(2, 1);
}

static void alloc(void) {
        world_alloc(2, WORLD_SIZE_2, 0);
}

/* Unless they are marked, the slabs are as the daemon counted them. If it died, the next one marks all. */
static void post(unsigned dead) {
        uint64_t counted = world.notes[0];

        world_check(dead);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                if (world_names_slab(dead, slab))
                        shm_hints_repair(&world_arena, slab);
        if ((dead & 2) || shm_changed_groups(&world_arena, 0) != 0)
                return;
        shm_changed_mark(&world_arena, 0);
        sums_begin();
        count_changed();
        if (world.notes[0] != counted)
                model_fail("slabs were counted as %lx, are %lx, and have no mark", counted, world.notes[0]);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "free-count", .pre = pre_one, .actors = { free_0, t_count }, .post = post, .deaths = 2,
          .weak = true },
        { .name = "free-count-marked", .pre = pre_marked, .actors = { free_0, t_count }, .post = post, .deaths = 1,
          .weak = true },
        { .name = "free-count-twice", .pre = pre_one, .actors = { free_0, t_count_twice }, .post = post, .deaths = 1,
          .weak = true },
        { .name = "free-count-alloc", .pre = pre_one, .actors = { free_0, t_count, alloc }, .post = post, .deaths = 1 },
        { .name = "free-count-free", .pre = pre_two, .actors = { free_0, t_count, free_1 }, .post = post, .deaths = 1 },
};
/* clang-format on */
