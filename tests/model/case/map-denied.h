/*
 * A map is changed while epoch 1, which has the values or the index, is revoked, and membarrier fails in the process
 * that does control work, or leaves out the processor of the change. Tags become even, but control gives back no slot
 * of a thread that may not have seen that. Actor 2 is control. It uses a slab that became free for an object of its
 * own, into which nobody else writes.
 */
#include "shm/epoch/epoch-close.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "tests/model/map-world.h"

#define REVOKED 1
#define victim world.notes[1]

static void ready(void) {
        control_init();
        map_ready(2);
        world_set_late(0);
        world_set_late(2);
        world.n_membarrier_errors = UINT32_MAX;
}

/* An empty map, with its index in epoch 0. */
static void pre_value(void) {
        map_init(2, 0, MAP_HASH, MAP_HASH_FAR, 0);
        ready();
}

/* With its index in the epoch that is revoked. */
static void pre_index(void) {
        map_init(2, REVOKED, MAP_HASH, MAP_HASH_FAR, 0);
        world_object(WORLD_SIZE_4, 0); /* no slab is free but the index's */
        ready();
}

/* A node below the root is to be made. */
static void pre_index_old(void) {
        map_init(2, REVOKED, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(0, 'o', 0);
        ready();
}

/* The first one of a revocation fails. */
static void pre_index_first(void) {
        pre_index();
        world.n_membarrier_errors = 1;
}

/* Membarriers work, and leave out the processor of actor 0. */
static void pre_index_left_out(void) {
        pre_index();
        world.n_membarrier_errors = 0;
        world_leave_out(0);
}

/* All threads fence for themselves. */
static void make_fencing(void) {
        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++) {
                world_actors[i].fences = true;
                world_actors[i].attention = UINT64_MAX; /* as when its copies were made */
                world_actors[i].record->flags = SHM_RECORD_FENCES;
        }
}

static void pre_value_fences(void) {
        pre_value();
        make_fencing();
}

static void pre_index_fences(void) {
        pre_index();
        make_fencing();
}

/* A node of the index is to be removed. */
static void pre_index_shrink_fences(void) {
        map_shape = MAP_SHRINKS;
        map_init(2, REVOKED, MAP_HASH, UINT64_C(1) << 61, 0);
        map_shape = MAP_FIXED;
        world_object(WORLD_SIZE_4, 0);
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 0);
        control_init();
        map_ready(2);
        world_set_late(0);
        world_set_late(2);
        world.n_membarrier_errors = UINT32_MAX;
        make_fencing();
}

static void t_delete(void) {
        map_delete(0, 0);
}

static void t_put_value(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, REVOKED);
}

static void t_put(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t_put_near(void) {
        map_put(0, 1, 'x', SHM_MAP_PUT, 0);
}

static void t_revoke(void) {
        uint64_t handle;

        map_must(shm_epoch_revoke(&world_arena, shm_epoch_number(REVOKED, 1), false));
        control_close(REVOKED);
        if (shm_object_alloc(world_actor(2), WORLD_SIZE_1, 0, NULL, &handle, NULL) != 0)
                return;
        map_wipe(handle);
        victim = handle;
}

/* The next control's membarriers work. */
static void post(unsigned dead) {
        ShmRevoking revoking;
        ShmActor control;

        map_check_wiped(victim);
        world.n_membarrier_errors = 0;
        recover_records(&control, dead);
        if (shm_epoch_revoking(&world_arena, REVOKED, &revoking))
                model_fail("the epoch stays to be revoked");
        (void) map_check_slots();
}

#define DENIED(_name, _pre, _t0, _more...)                                                                   \
        { .name = _name, .pre = _pre, .actors = { _t0, t_nothing, t_revoke }, .post = post, .late = 2, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        DENIED("put", pre_value, t_put_value, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-put", pre_index, t_put, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-split", pre_index_old, t_put_near, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-put-first", pre_index_first, t_put, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-put-left-out", pre_index_left_out, t_put, .deaths = 1, .preemptions = 3),
        DENIED("put-fences", pre_value_fences, t_put_value, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-put-fences", pre_index_fences, t_put, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        DENIED("index-shrink-fences", pre_index_shrink_fences, t_delete, .preemptions = 2, .full_preemptions = 3),
};
/* clang-format on */
