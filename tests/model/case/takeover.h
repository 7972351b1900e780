/*
 * Control died while it emptied a frozen cache, in front of each access in turn. The next control ends that work while
 * threads go on; it may die, too, and then a third takes over. No slot is lost or doubled.
 */
#include "tests/model/calls.h"
#include "tests/model/control.h"

static void v_freeze(void) {
        (void) shm_freeze_begin(&world_actors[0], &freeze, 1);
        (void) shm_freeze_step(&world_actors[0], &freeze, 4, UINT64_MAX);
}

static void begin(void) {
        calls_init(4);
        control_init();
}

static void pre(void) {
        begin();
        model_cut(v_freeze);
        control_forget();
}

/* Actor 1 caches, too. */
static void pre_both(void) {
        begin();
        world_set_caching(1, 1);
        model_cut(v_freeze);
        control_forget();
}

static void t_free_alloc_1(void) {
        world_free(1, 1);
        world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

#define TAKEOVER(_name, _pre, _t0, _t1, _more...)                                                            \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1, control_take_over }, .post = recover,      \
                .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 3, _more                \
        }

static const ModelCase model_cases[] = {
        TAKEOVER("owner", pre, t_alloc, t_nothing),
        TAKEOVER("other", pre, t_nothing, t_alloc_1),
        TAKEOVER("other-caches", pre_both, t_nothing, t_alloc_1, .full_only = true), /* part of the next */
        TAKEOVER("other-alloc-free", pre_both, t_nothing, t_alloc_free_1),
        TAKEOVER("other-free-alloc", pre_both, t_nothing, t_free_alloc_1),
        TAKEOVER("owner-other", pre_both, t_alloc, t_alloc_1, .full_only = true),
};
