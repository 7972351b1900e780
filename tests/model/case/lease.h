/*
 * A lease ends after its client's death, while a thread uses the epoch; control may die in it. The next control finds
 * the client's entry still DEAD, and begins anew. At the end the epoch is closed, nobody owns it, and no object of it
 * is left.
 */
#include "shm/epoch/epoch-close.h"
#include "tests/model/control.h"

#define CLIENT 7
#define LEASED 1
#define N_BATCH 2

static uint32_t leased; /* the number of the era */

static void lease(void) {
        world_init(3, 3, 0);
        if (shm_epoch_lease(&world_arena, LEASED, "lease", CLIENT, &leased) != 0)
                model_fail("cannot lease");
}

/* Actor 0 has both slots of a slab of the leased epoch in its cache. */
static void pre(void) {
        uint64_t handles[2];

        lease();
        world_set_caching(0, 1);
        model_watch(shm_arena_cache(&world_arena, 1, LEASED, 1));
        for (unsigned i = 0; i < 2; i++)
                if (shm_object_alloc(&world_actors[1], WORLD_SIZE_2, leased, NULL, &handles[i], NULL) != 0)
                        model_fail("cannot fill the cache");
        for (unsigned i = 0; i < 2; i++)
                (void) shm_object_free(&world_actors[1], handles[i]);
        world_tidy();
        control_init();
}

/* Objects 0 and 1 are of the leased epoch. */
static void pre_objects(void) {
        lease();
        world_set_caching(0, 1);
        model_watch(shm_arena_cache(&world_arena, 1, LEASED, 1));
        (void) world_objects(N_BATCH, WORLD_SIZE_2, leased);
        world_tidy();
        control_init();
}

static void v_end(void) {
        (void) shm_epoch_end_leases(&world_arena, CLIENT);
}

static void pre_died(void) {
        pre();
        model_cut(v_end);
        control_forget();
}

static void t_nothing(void) {
}

static void t_alloc(void) {
        world_alloc(0, WORLD_SIZE_2, leased);
}

static void t_alloc_free(void) {
        if (world_alloc(0, WORLD_SIZE_2, leased) == 0)
                world_free(0, world_allocated(0, 0));
}

static void t_alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, leased);
}

static void t_batch_alloc(void) {
        world_batch_alloc(0, N_BATCH, WORLD_SIZE_2, leased);
}

static void t_batch_free(void) {
        world_batch_free(0, N_BATCH, 0);
}

/* It is taken back instead, or its thread dies: then repair frees it. */
static void pending(bool publish) {
        WorldObject *o = &world.objects[world_allocated(0, 0)];
        const ShmPending none = {};
        uint64_t handle = 0;

        o->error = shm_object_alloc(world_actor(0), WORLD_SIZE_2, leased, &none, &handle, NULL);
        if (o->error != 0)
                return;
        if (!publish)
                shm_cache_free_pending(world_actor(0));
        else if (shm_object_publish(world_actor(0), handle) != 0)
                model_fail("object %lx was noted, and is not", (unsigned long) handle);
        else
                o->handle = handle;
}

static void t_publish(void) {
        pending(true);
}

static void t_take_back(void) {
        pending(false);
}

/* A thread died in an operation, in front of each access in turn. Its record is DEAD, and not yet repaired. */
static void pre_dead(void) {
        pre();
        model_cut(t_alloc);
        (void) shm_record_mark_dead(&world_arena, 1);
}

/* The same, and nobody caches. */
static void pre_dead_uncached(void) {
        lease();
        control_init();
        model_cut(t_alloc);
        (void) shm_record_mark_dead(&world_arena, 1);
}

static void t_end(void) {
        if (shm_epoch_end_leases(&world_arena, CLIENT) > 0)
                control_close(LEASED);
}

static void t_end_again(void) {
        control_take_over();
        t_end();
}

static void check_ended(void) {
        ShmEpochInfo info;

        (void) shm_epoch_get(&world_arena, LEASED, &info);
        if (info.state == SHM_EPOCH_OPEN || info.owner != 0)
                model_fail("the epoch's state is %u, its owner %u", (unsigned) info.state, info.owner);
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++)
                if (world.objects[i].handle != 0 && shm_object_live(&world_arena, world.objects[i].handle))
                        model_fail("object %u of the leased epoch lives", i);
}

static void post(unsigned dead) {
        ShmActor control;

        (void) shm_epoch_end_leases(&world_arena, CLIENT);
        check_unused();
        recover_records(&control, dead);
        control_excuse_revoked();
        recover_check(dead);
        check_ended();
        control_expect_revoked(LEASED);
}

static void post_dead(unsigned dead) {
        post(dead | 1);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "alloc", .pre = pre, .actors = { t_alloc, t_nothing, t_end }, .post = post, .deaths = 2,
          .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "alloc-free", .pre = pre, .actors = { t_alloc_free, t_nothing, t_end }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "batch", .pre = pre, .actors = { t_batch_alloc, t_alloc_1, t_end }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "batch-free", .pre = pre_objects, .actors = { t_batch_free, t_nothing, t_end }, .post = post,
          .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "publish", .pre = pre, .actors = { t_publish, t_alloc_1, t_end }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "take-back", .pre = pre, .actors = { t_take_back, t_nothing, t_end }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "again", .pre = pre_died, .actors = { t_alloc, t_nothing, t_end_again }, .post = post, .deaths = 1,
          .variants = true, .preemptions = 1, .full_preemptions = 2 },
        { .name = "dead", .pre = pre_dead, .actors = { t_nothing, t_alloc_1, t_end }, .post = post_dead, .deaths = 1,
          .variants = true, .preemptions = 1 },
        { .name = "dead-uncached", .pre = pre_dead_uncached, .actors = { t_nothing, t_alloc_1, t_end },
          .post = post_dead, .deaths = 1, .variants = true, .preemptions = 1 },
};
/* clang-format on */
