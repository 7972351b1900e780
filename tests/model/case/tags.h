/*
 * The tags of dropped slabs: their page goes with the last of these slabs, and comes back with the first. Here two
 * slabs share a page. No handle of an object that was there fits again, even after a death, once the next control has
 * ended the operation that was under way.
 */
#include <errno.h>

#include "shm/cache/batch.h"
#include "shm/cache/cache-drain.h"
#include "shm/cache/lookup.h"
#include "shm/slab/pages.h"
#include "tests/model/world.h"

#define N_BATCH 3

/* Object 0 is in slab 0, where another was before; slab 1 is free. */
static void pre_live(void) {
        world_init(2, 2, 0);
        world_set_control(0);
        world_object(WORLD_SIZE_2, 0);
        world_free(1, 0);
        world_object(WORLD_SIZE_2, 0);
        world_tidy();
}

/* The same, and slab 1 was dropped. */
static void pre_live_alone(void) {
        pre_live();
        shm_pages_drop(&world_actors[0], 0, 2);
}

/* Objects 0 to 2 are in slab 0, of four slots; actor 1 has a cache, of slab 1. */
static void pre_batch(void) {
        world_init(2, 2, 0);
        world_set_control(0);
        world_set_caching(1, 1);
        world_objects(N_BATCH, WORLD_SIZE_4, 0);
        world_fill_cache(2, 1, WORLD_SIZE_2);
        shm_cache_drain_record(&world_actors[2], 2, UINT64_MAX);
        world_tidy();
}

/* No object is left of those that were, nor a page. Clients may commit. */
static void pre_gone(void) {
        pre_live();
        world_free(1, 1);
        world_arena.header->commit_allowance.value = 64;
        shm_pages_drop(&world_actors[0], 0, 3);
        world_tidy();
}

/* The same, for two clients. */
static void pre_gone_clients(void) {
        pre_gone();
        world_set_control(2);
}

/* As a look at a stale handle leaves it, or a client that could not commit: the tags have a page. */
static void pre_looked_at(void) {
        pre_gone();
        world_arena.lines[1].tag_floor |= 1;
        world.tag_pages |= UINT64_C(1) << 1 / SHM_TAGS_PER_PAGE;
}

static void drop(void) {
        shm_pages_drop(world_actor(0), 0, 3);
}

static void drop_tags_alone(void) {
        ShmSurplus surplus = { .position = UINT32_MAX };

        shm_pages_drop_surplus_step(world_actor(0), &surplus, UINT32_MAX);
}

static void alloc_0(void) {
        world_alloc(0, WORLD_SIZE_2, 0);
}

static void alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, 0);
}

static void free_1(void) {
        world_free(1, 1);
}

static void also_free_1(void) {
        world_free(2, 1);
}

static void batch_free(void) {
        uint64_t handles[N_BATCH];
        size_t done;

        for (unsigned i = 0; i < N_BATCH; i++) {
                handles[i] = world.objects[i].handle;
                world.objects[i].n_begun++;
        }
        done = shm_batch_free(world_actor(1), handles, N_BATCH);
        for (unsigned i = 0; i < N_BATCH; i++) {
                WorldObject *o = &world.objects[i];

                if (i < done)
                        o->n_won++;
                else
                        o->n_begun--;
        }
}

/* One at a time, past the caches: the slab empties. */
static void free_all(void) {
        for (unsigned i = 0; i < N_BATCH; i++)
                world_free(2, i);
}

static void get_stale(void) {
        void *object;

        if (shm_object_get(&world_arena, world.objects[1].handle, &object, NULL) != -ESTALE)
                model_fail("a stale handle was found");
}

/* Control's next end what the dead began, and all slabs are used once more. */
static void post(unsigned dead) {
        ShmActor *control = &world_actors[0];
        uint64_t handle;
        uint32_t n;

        world_check(dead);
        for (uint32_t record = 0; record <= MODEL_ACTORS_MAX; record++)
                (void) shm_pages_undo(control, record, 0, 2);
        while (shm_pages_commit(control, 1, &n) == 0)
                ;
        world_check(dead);
        for (unsigned i = 0; i < 4 && shm_object_alloc(control, WORLD_SIZE_2, 0, NULL, &handle, NULL) == 0;
             i++)
                for (unsigned j = 0; j < WORLD_N_OBJECTS; j++)
                        if (world.objects[j].handle == handle)
                                model_fail("object %u has come again", j);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "drop-free", .pre = pre_live, .actors = { drop, free_1, also_free_1 }, .post = post, .deaths = 1 },
        { .name = "drop-free-alone", .pre = pre_live_alone, .actors = { drop, free_1, also_free_1 }, .post = post,
          .deaths = 1, .weak = true, .weak_preemptions = 1 },
        { .name = "drop-batch", .pre = pre_batch, .actors = { drop, batch_free, free_all }, .post = post, .deaths = 1 },
        { .name = "gone-free", .pre = pre_gone, .actors = { drop, alloc_1, also_free_1 }, .post = post, .deaths = 1,
          .weak = true, .weak_preemptions = 1 },
        { .name = "gone-get", .pre = pre_gone, .actors = { drop, alloc_1, get_stale }, .post = post, .deaths = 1,
          .weak = true, .weak_preemptions = 1 },
        { .name = "gone-gone", .pre = pre_gone_clients, .actors = { alloc_0, alloc_1 }, .post = post, .deaths = 2,
          .weak = true, .weak_preemptions = 1 },
        { .name = "surplus", .pre = pre_looked_at, .actors = { drop_tags_alone, alloc_1, also_free_1 }, .post = post,
          .deaths = 1 },
};
/* clang-format on */
