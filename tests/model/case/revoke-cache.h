/*
 * An epoch is revoked while a thread allocates and frees in it: from its cache, or under TAKE. Any actor may die. If
 * control dies, the next control revokes. In the end no slab of the epoch is left.
 */
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "shm/epoch/epoch-close.h"

static void pre_uncached(void) {
        world_init(3, 3, 0);
        world_objects(3, WORLD_SIZE_2, 0);
        world_tidy();
        control_init();
}

static void pre(void) {
        pre_uncached();
        world_set_caching(0, 0); /* a dropped slab seems to be of this class */
        world_set_caching(0, 1);
        world_fill_cache(1, 2, WORLD_SIZE_2);
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

static void t_close_revoke(void) {
        if (shm_epoch_revoke(&world_arena, 0, false) != 0)
                model_fail("cannot revoke");
        control_close(0);
}

/* In the end, when the next control has revoked once more, nothing of the epoch is left. */
static void post(unsigned dead) {
        ShmActor control;

        recover_records(&control, dead);
        control_excuse_revoked();
        recover_check(dead);
        control_expect_revoked(0);
}

/* Actor 0 died in an operation, in front of each access in turn; its process says so meanwhile. */
static void pre_died_pop(void) {
        pre();
        model_cut(t_alloc);
}

static void pre_died_free(void) {
        pre();
        model_cut(t_free);
}

static void pre_died_take(void) {
        pre_uncached();
        model_cut(t_alloc);
}

static void t_mark_dead(void) {
        (void) shm_record_mark_dead(&world_arena, 1);
}

static void post_died(unsigned dead) {
        post(dead | 1);
}

/* The process has said so before. */
static void pre_marked_pop(void) {
        pre_died_pop();
        t_mark_dead();
}

/* It may have taken a slab of which no hint says that it is of the epoch. */
static void pre_marked_take(void) {
        world_init(3, 3, 0);
        world_objects(4, WORLD_SIZE_2, 0);
        world_tidy();
        control_init();
        model_cut(t_alloc);
        t_mark_dead();
}

/* Control died in the same way. */
static void pre_again(void) {
        pre();
        model_cut(t_close_revoke);
        control_forget();
}

static void t_next_control(void) {
        ShmRevoking revoking;

        control_take_over();
        if (shm_epoch_revoking(&world_arena, 0, &revoking))
                control_close(0);
}

#define REVOKE(_name, _pre, _t0, _t1, _more...)                                                              \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1, t_close_revoke }, .post = post,            \
                .deaths = 1, _more                                                                           \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        REVOKE("pop", pre, t_alloc, t_nothing, .preemptions = 4),
        REVOKE("pop-late", pre_late, t_alloc, t_nothing, .preemptions = 3, .late = 2),
        REVOKE("pop-left-out", pre_left_out, t_alloc, t_nothing, .preemptions = 3, .late = 2),
        REVOKE("free", pre, t_free, t_nothing, .preemptions = 4),
        REVOKE("pop-free", pre, t_alloc_free, t_nothing, .preemptions = 3),
        REVOKE("pop-free-other", pre, t_alloc, t_free_1, .preemptions = 2, .full_preemptions = 3),
        REVOKE("take", pre_uncached, t_alloc, t_nothing, .preemptions = 4),
        { .name = "dead-pop", .pre = pre_died_pop, .actors = { t_nothing, t_mark_dead, t_close_revoke },
          .post = post_died, .deaths = 1, .variants = true, .preemptions = 2 },
        { .name = "dead-free", .pre = pre_died_free, .actors = { t_nothing, t_mark_dead, t_close_revoke },
          .post = post_died, .deaths = 1, .variants = true, .preemptions = 2 },
        { .name = "dead-take", .pre = pre_died_take, .actors = { t_nothing, t_mark_dead, t_close_revoke },
          .post = post_died, .deaths = 1, .variants = true, .preemptions = 2 },
        { .name = "marked-pop", .pre = pre_marked_pop, .actors = { t_nothing, t_alloc_1, t_close_revoke },
          .post = post_died, .variants = true, .preemptions = 1 },
        { .name = "marked-take", .pre = pre_marked_take, .actors = { t_nothing, t_alloc_1, t_close_revoke },
          .post = post_died, .variants = true, .preemptions = 1 },
        { .name = "again-pop", .pre = pre_again, .actors = { t_alloc, t_nothing, t_next_control }, .post = post,
          .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 2 },
        { .name = "again-free", .pre = pre_again, .actors = { t_free, t_nothing, t_next_control }, .post = post,
          .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 2 },
        REVOKE("take-free", pre_uncached, t_alloc_free, t_free_1, .preemptions = 2, .full_preemptions = 3),
};
/* clang-format on */
