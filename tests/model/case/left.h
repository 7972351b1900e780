/*
 * A thread ends while it is frozen for another epoch, so that its caches are full. Control finishes the record, or dies
 * in that, and the next control does. No slot is lost, and nothing is in the caches of a record that is free.
 */
#include "tests/model/calls.h"
#include "tests/model/control.h"

static ShmActor leaver; /* owns record 1, and is actor 0's */

static void begin(void) {
        calls_init(3);
        control_init();
}

static void pre(void) {
        begin();
        leaver = *world_actor(0);
        model_own(0, &leaver, WORLD_ACTOR_SIZE);
}

static void v_finish_left(void) {
        if (shm_freeze_resume(&world_actors[0], &freeze))
                (void) shm_freeze_step(&world_actors[0], &freeze, 4, UINT64_MAX);
}

/* Control died while it finished the record; actor 1 caches, too. */
static void pre_died(void) {
        begin();
        world_set_caching(1, 1);
        shm_record_set_left(&world_arena, 1);
        model_cut(v_finish_left);
        control_forget();
}

static void t_leave(void) {
        shm_cache_leave(&leaver);
}

/* Caches of epoch 1 are emptied; then comes the daemon's next look at records that were left. */
static void t_freeze(void) {
        control_freeze(2);
        control_resume();
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "alone", .pre = pre, .actors = { t_leave, t_nothing, t_freeze }, .post = recover, .deaths = 2,
          .preemptions = 4, .weak = true, .weak_preemptions = 1 },
        { .name = "alloc", .pre = pre, .actors = { t_leave, t_alloc_1, t_freeze }, .post = recover, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3, .weak = true, .weak_preemptions = 1 },
        { .name = "again", .pre = pre_died, .actors = { t_nothing, t_alloc_1, control_take_over }, .post = recover,
          .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 3 },
};
/* clang-format on */
