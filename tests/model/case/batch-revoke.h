/*
 * An epoch is revoked while a thread allocates, or frees, several of its objects at once; then another thread may have
 * objects in the same slots. Any actor may die. No two objects have the same handle, no object of another epoch is
 * gone, and in the end nothing of the revoked epoch is left.
 */
#include "shm/cache/batch.h"
#include "shm/epoch/epoch-close.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"

#define N_BATCH 2

/* Objects 0 to 2 are in slabs 0 and 1, of two slots; both slots of slab 2 are in actor 0's cache. */
static void pre(void) {
        calls_init(3);
        control_init();
}

/* The cache is full: slots of objects 0 and 1 go back to their slab. */
static void pre_full(void) {
        pre();
        shm_arena_cache(&world_arena, 1, 0, 1)->room = 2;
}

static void pre_late(void) {
        pre();
        world_set_late(0);
        world_set_late(2);
}

static void pre_left_out(void) {
        pre();
        world_leave_out(0);
}

static void t_batch_alloc(void) {
        world_batch_alloc(0, N_BATCH, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_fill(void) {
        static const uint8_t bytes[N_BATCH * (WORLD_SIZE_4 + 8)];
        uint64_t handles[N_BATCH] = {};
        ShmBatchFill fill = { .words = handles, .from = bytes, .size = WORLD_SIZE_4 + 8 };

        world_begin_batch(0, N_BATCH);
        world_end_batch(0, N_BATCH, handles,
                        shm_batch_fill(world_actor(0), SHM_EPOCH_CURRENT, &fill, N_BATCH));
}

static void t_batch_free(void) {
        world_batch_free(0, N_BATCH, 0);
}

/* The other epoch stays open. */
static void t_alloc_elsewhere(void) {
        world_alloc(1, WORLD_SIZE_2, 1);
}

static void t_close_revoke(void) {
        if (shm_epoch_revoke(&world_arena, 0, false) != 0)
                model_fail("cannot revoke");
        control_close(0);
}

static void post(unsigned dead) {
        WorldObject *other = &world.objects[world_allocated(1, 0)];
        ShmActor control;

        for (unsigned i = 0; i < N_BATCH && other->handle != 0; i++)
                if (world.objects[world_allocated(0, i)].handle == other->handle)
                        model_fail("object %u of the batch has the handle of another thread's object", i);
        recover_records(&control, dead);
        if (other->handle != 0 && !shm_object_live(&world_arena, other->handle))
                model_fail("an object of an epoch that is open is gone");
        control_excuse_revoked();
        recover_check(dead);
        control_expect_revoked(0);
}

#define REVOKE(_name, _pre, _t0, _t1, _more...)                                                              \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1, t_close_revoke }, .post = post, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        REVOKE("alloc", pre, t_batch_alloc, t_nothing, .deaths = 1, .preemptions = 3,
               .weak = true, .weak_preemptions = 1),
        REVOKE("alloc-reuse", pre, t_batch_alloc, t_alloc_elsewhere, .preemptions = 2, .full_preemptions = 3),
        REVOKE("alloc-late", pre_late, t_batch_alloc, t_nothing, .deaths = 1, .preemptions = 2, .late = 2),
        REVOKE("alloc-left-out", pre_left_out, t_batch_alloc, t_nothing, .deaths = 1, .preemptions = 2, .late = 2),
        REVOKE("fill", pre, t_fill, t_nothing, .deaths = 1, .preemptions = 3),
        REVOKE("fill-reuse", pre, t_fill, t_alloc_elsewhere, .preemptions = 2, .full_preemptions = 3),
        REVOKE("free", pre, t_batch_free, t_nothing, .deaths = 1, .preemptions = 3,
               .weak = true, .weak_preemptions = 1),
        REVOKE("free-reuse", pre, t_batch_free, t_alloc_elsewhere, .preemptions = 2, .full_preemptions = 3),
        REVOKE("free-other", pre, t_batch_free, t_free_1, .deaths = 1, .preemptions = 2),
        REVOKE("free-full", pre_full, t_batch_free, t_nothing, .deaths = 1, .preemptions = 3),
};
/* clang-format on */
