/*
 * Batches: the slots of several objects change their place together. If an actor dies in between, each slot is free, or
 * in a cache, or live and its handle was returned.
 */
#include <errno.h>
#include <string.h>

#include "shm/cache/batch.h"
#include "shm/epoch/epoch-close.h"
#include "shm/maintain/freeze.h"
#include "tests/model/calls.h"
#include "tests/model/world.h"

#define N_BATCH 3

static ShmFreeze freeze; /* control's own: as much of it as there are records */

/* Objects 0 to 2 are in a slab of four slots, and the last slot is in actor 0's cache. */
static void pre(void) {
        world_init(2, 2, 0);
        world_set_caching(0, 0);
        world_set_caching(1, 0);
        world_objects(N_BATCH, WORLD_SIZE_4, 0);
        world_tidy();
        world_fill_cache(1, 1, WORLD_SIZE_4);
}

/* Each object is of another slab than the one before: it is freed as a single one, inside the operation. */
static void pre_scattered(void) {
        world_init(2, 2, 0);
        world_set_caching(0, 0);
        world_set_caching(0, 2);
        world_set_caching(1, 2);
        world_set_caching(1, 0);
        for (unsigned i = 0; i < N_BATCH; i++)
                world_object(i == 1 ? WORLD_SIZE_1 : WORLD_SIZE_4, 0);
        world_tidy();
        world_fill_cache(1, 1, WORLD_SIZE_4);
        world_set_capacity(1, 2, 1);
}

/* As pre(), and actor 0's cache is full: the slots go back to the slab. */
static void pre_full(void) {
        pre();
        shm_arena_cache(&world_arena, 1, 0, 0)->room = 1;
}

/* Actor 0 has three slots in its cache. */
static void pre_warm(void) {
        world_init(2, 2, 0);
        world_set_caching(0, 0);
        world_set_caching(1, 0);
        world_object(WORLD_SIZE_4, 0);
        world_tidy();
        world_fill_cache(1, N_BATCH, WORLD_SIZE_4);
}

static void add_control(void) {
        freeze = (ShmFreeze){};
        world_set_control(2);
        model_own(2, &freeze, offsetof(ShmFreeze, seq) + 4 * sizeof(freeze.seq[0]));
        model_own(2, freeze.epochs, 4 * sizeof(freeze.epochs[0]));
        world_actor(1)->mode = SHM_CACHE_OFF;
}

static void pre_control(void) {
        pre();
        add_control();
}

static void pre_scattered_control(void) {
        pre_scattered();
        add_control();
}

static void pre_full_control(void) {
        pre_full();
        add_control();
}

static void pre_warm_control(void) {
        pre_warm();
        add_control();
}

/* Stores of actor 0 may be seen late: those of its operation too, and control finds it by a membarrier. */
static void pre_warm_control_late(void) {
        pre_warm_control();
        world_set_late(0);
}

/* Membarriers leave out its processor. */
static void pre_warm_control_left_out(void) {
        pre_warm_control();
        world_leave_out(0);
}

static void pre_control_left_out(void) {
        pre_control();
        world_leave_out(0);
}

static void pre_scattered_late(void) {
        pre_scattered_control();
        world_set_late(0);
}

static void pre_control_late(void) {
        pre_control();
        world_set_late(0);
}

static void t_batch_free(void) {
        uint64_t handles[N_BATCH];
        size_t done;

        for (unsigned i = 0; i < N_BATCH; i++) {
                handles[i] = world.objects[i].handle;
                world.objects[i].n_begun++;
        }
        done = shm_batch_free(world_actor(0), handles, N_BATCH);
        for (unsigned i = 0; i < N_BATCH; i++) {
                WorldObject *o = &world.objects[i];

                if (i < done)
                        o->n_won++;
                else if (i == done && !shm_object_live(&world_arena, o->handle))
                        o->n_stale++;
                else
                        o->n_begun--;
        }
}

static void t_batch_alloc(void) {
        uint64_t handles[2] = {};
        size_t done;

        world.n_allocs[0] = 2;
        for (unsigned i = 0; i < 2; i++)
                world_begin_alloc(0, i);
        done = shm_batch_alloc(world_actor(0), WORLD_SIZE_4, SHM_EPOCH_CURRENT, handles, 2);
        for (unsigned i = 0; i < 2; i++)
                world_end_alloc(0, i, i < done ? handles[i] : 0, i < done ? 0 : -ENOMEM);
}

/* Two objects with their bytes, of so few that they are copied at once. */
static void t_fill(void) {
        static const uint8_t bytes[16];
        uint64_t words[2];
        ShmBatchFill fill = { .words = words, .from = bytes, .size = sizeof(bytes) / 2 };
        uint32_t done;

        world.n_allocs[0] = 2;
        for (unsigned i = 0; i < 2; i++)
                world_begin_alloc(0, i);
        done = shm_batch_fill(world_actor(0), SHM_EPOCH_CURRENT, &fill, 2);
        for (unsigned i = 0; i < 2; i++)
                world_end_alloc(0, i, i < done ? words[i] : 0, i < done ? 0 : -ENOMEM);
}

/* The caller's memory is shared: others find its handles there when it is dead. */
static uint64_t found[2];

static void pre_found(void) {
        pre_warm();
        memset(found, 0, sizeof(found));
        model_own(0, found, sizeof(found));
}

static void t_batch_alloc_found(void) {
        (void) shm_batch_alloc(world_actor(0), WORLD_SIZE_4, SHM_EPOCH_CURRENT, found, 2);
}

/* A handle that others find is of a live object, which stays: repair rolls back what is in the cache. */
static void post_found(unsigned dead) {
        const ShmCache *cache = shm_arena_cache(&world_arena, 1, 0, 0);

        (void) dead;
        for (unsigned i = 0; i < 2; i++) {
                if (found[i] != 0 && !shm_object_live(&world_arena, found[i]))
                        model_fail("a handle that was stored is stale");
                for (uint32_t n = 0; found[i] != 0 && n < cache->count; n++)
                        if (cache->slots[n] == shm_handle_slot(found[i]).value)
                                model_fail("an object whose handle was stored is rolled back");
        }
}

static void t_free_0_1(void) {
        world_free(1, 0);
}

static void t_alloc_4_1(void) {
        world_alloc(1, WORLD_SIZE_4, SHM_EPOCH_CURRENT);
}

static void t_freeze(void) {
        if (shm_freeze_begin(world_actor(2), &freeze, 1) != 0)
                model_fail("cannot freeze");
        world_look(&freeze);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "free-free", .pre = pre, .actors = { t_batch_free, t_free_1 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "free-free-first", .pre = pre, .actors = { t_batch_free, t_free_0_1 }, .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "scattered-free", .pre = pre_scattered, .actors = { t_batch_free, t_free_1 }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "scattered-free-first", .pre = pre_scattered, .actors = { t_batch_free, t_free_0_1 },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "scattered-freeze", .pre = pre_scattered_control, .actors = { t_batch_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "scattered-freeze-late", .pre = pre_scattered_late,
          .actors = { t_batch_free, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .weak = true },
        { .name = "free-full", .pre = pre_full, .actors = { t_batch_free, t_free_1 }, .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "free-full-alloc", .pre = pre_full, .actors = { t_batch_free, t_alloc_4_1 }, .post = world_check,
          .deaths = 1, .weak = true },
        { .name = "free-freeze", .pre = pre_control, .actors = { t_batch_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "free-full-freeze", .pre = pre_full_control, .actors = { t_batch_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "alloc-free", .pre = pre_warm, .actors = { t_batch_alloc, t_free_0_1 }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "alloc-found", .pre = pre_found, .actors = { t_batch_alloc_found }, .post = post_found,
          .deaths = 1, .weak = true },
        { .name = "fill", .pre = pre_warm, .actors = { t_fill, t_free_0_1 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "fill-freeze", .pre = pre_warm_control, .actors = { t_fill, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "alloc-freeze", .pre = pre_warm_control, .actors = { t_batch_alloc, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .weak = true },
        { .name = "fill-freeze-late", .pre = pre_warm_control_late, .actors = { t_fill, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "alloc-freeze-late", .pre = pre_warm_control_late,
          .actors = { t_batch_alloc, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .weak = true },
        { .name = "free-freeze-late", .pre = pre_control_late,
          .actors = { t_batch_free, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .weak = true },
        { .name = "fill-freeze-left-out", .pre = pre_warm_control_left_out, .actors = { t_fill, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "alloc-freeze-left-out", .pre = pre_warm_control_left_out,
          .actors = { t_batch_alloc, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .weak = true },
        { .name = "free-freeze-left-out", .pre = pre_control_left_out,
          .actors = { t_batch_free, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .weak = true },
};
/* clang-format on */
