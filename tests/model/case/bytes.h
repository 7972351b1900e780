/*
 * The bytes of an object and its tag, under a weak memory: a copy that finds the tag before and after it has the bytes
 * of that object, even if its slot is freed and used anew on the way.
 */
#include <errno.h>

#include "shm/arch/racy.h"
#include "shm/cache/batch.h"
#include "shm/cache/lookup.h"
#include "tests/model/calls.h"

#define OLD 1
#define NEW 2
#define N_WORDS 2

static uint64_t *bytes, old_handle; /* object 1 has these */

static void write_bytes(uint64_t value) {
        for (unsigned i = 0; i < N_WORDS; i++)
                shm_store_rlx(&bytes[i], value);
}

/* Slabs, too, are memory that the explorer looks at. */
static void pre_slabs(void) {
        void *object;

        model_memory(world_arena.base, (size_t) (world_arena.slabs - world_arena.base) + 2 * SHM_SLAB_SIZE);
        old_handle = world.objects[1].handle;
        if (shm_object_get(&world_arena, old_handle, &object, NULL) != 0)
                model_fail("no object");
        bytes = object;
        write_bytes(OLD);
}

/* Actor 0 has a cache. */
static void pre_cached(void) {
        calls_init(4);
        pre_slabs();
}

/* All slots are in use. */
static void pre_uncached(void) {
        world_init(2, 2, 0);
        world_objects(4, WORLD_SIZE_2, 0);
        world_tidy();
        pre_slabs();
}

/* The next owner has a cache, and refills it. */
static void pre_refill(void) {
        pre_uncached();
        world_set_caching(1, 1);
}

/* Threads that fence for themselves, or whose caches are taken, are served so. */
static void pre_slow(void) {
        pre_cached();
        world_actor(0)->fences = true;
        world_actor(0)->attention = UINT64_MAX;
        world_actor(0)->record->flags = SHM_RECORD_FENCES;
}

/* The new owner. */
static void write_new(uint64_t handle) {
        if (shm_handle_slot(handle).value != shm_handle_slot(old_handle).value)
                model_fail("it is another slot");
        write_bytes(NEW);
}

static void t_reuse(void) {
        if (world_free(0, 1) == 0 && world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT) == 0)
                write_new(world.objects[world_allocated(0, 0)].handle);
}

/* One frees it, another one takes the slot; nothing else is free. */
static void t_free_old(void) {
        world_free(0, 1);
}

static void t_take(void) {
        if (world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT) == 0)
                write_new(world.objects[world_allocated(1, 0)].handle);
}

static void t_reuse_batch(void) {
        uint64_t handle;

        world.objects[1].n_begun++;
        if (shm_batch_free(world_actor(0), &old_handle, 1) != 1)
                return;
        world.objects[1].n_won++;
        world_begin_alloc(0, 0);
        if (shm_batch_alloc(world_actor(0), WORLD_SIZE_2, SHM_EPOCH_CURRENT, &handle, 1) != 1)
                return;
        world_end_alloc(0, 0, handle, 0);
        write_new(handle);
}

/* The owner writes to the last, then frees it. */
static void t_write_free(void) {
        write_bytes(OLD + NEW);
        t_free_old();
}

static void t_copy(void) {
        uint64_t copy[N_WORDS];
        int r = shm_object_copy(&world_arena, old_handle, 0, copy, sizeof(copy));

        if (r != 0 && r != -ESTALE)
                model_fail("copy: %d", r);
        for (unsigned i = 0; i < N_WORDS && r == 0; i++)
                if (copy[i] != OLD)
                        model_fail("word %u of the copy is another object's", i);
}

static void post(unsigned dead) {
        if (dead == 0)
                world_check(dead);
}

static void post_taken(unsigned dead) {
        bool taken = world.objects[world_allocated(1, 0)].handle != 0;

        world_check(dead);
        for (unsigned i = 0; i < N_WORDS && taken; i++)
                if (shm_load_rlx(&bytes[i]) != NEW)
                        model_fail("word %u is the last owner's", i);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "reuse-copy", .pre = pre_cached, .actors = { t_reuse, t_copy }, .post = post, .weak = true },
        { .name = "reuse-copy-uncached", .pre = pre_uncached, .actors = { t_reuse, t_copy }, .post = post,
          .weak = true },
        { .name = "free-take-copy", .pre = pre_uncached, .actors = { t_free_old, t_take, t_copy }, .post = post,
          .weak = true },
        { .name = "free-refill-copy", .pre = pre_refill, .actors = { t_free_old, t_take, t_copy }, .post = post,
          .weak = true },
        { .name = "write-free-take", .pre = pre_uncached, .actors = { t_write_free, t_take }, .post = post_taken,
          .weak = true },
        { .name = "reuse-copy-slow", .pre = pre_slow, .actors = { t_reuse, t_copy }, .post = post, .weak = true },
        { .name = "reuse-copy-batch", .pre = pre_cached, .actors = { t_reuse_batch, t_copy }, .post = post,
          .weak = true },
};
/* clang-format on */
