/*
 * Membarrier fails in the process that does control work, and only there, each time or the first time. A thread that
 * does not fence is then pending, and control fences for its own part.
 */
#include "shm/cache/cache.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"

/* All stores of actor 0 may be late, and control's, too. */
static void pre(void) {
        calls_init(3);
        control_init();
        world_set_late(0);
        world_set_late(2);
        world.n_membarrier_errors = UINT32_MAX;
}

static void pre_first(void) {
        pre();
        world.n_membarrier_errors = 1;
}

static void pre_fences(void) {
        pre();
        world_actor(0)->fences = true;
        world_actor(0)->attention = UINT64_MAX; /* as when its copies were made */
        world_actor(0)->record->flags = SHM_RECORD_FENCES;
}

/* Control is a daemon: it looks at no records in front of that, which would be behind a fence, too. */
static void pre_fences_daemon(void) {
        pre_fences();
        world_actor(2)->process = 0;
}

/* It goes on, whether it was told that the membarrier failed or not. */
static void t_freeze(void) {
        control_freeze(1);
        control_freeze(1);
}

#define DENIED(_name, _pre, _t0, _more...)                                                                   \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, t_nothing, t_freeze }, .post = world_check,     \
                .deaths = 1, .late = 4, _more                                                                \
        }

static const ModelCase model_cases[] = {
        DENIED("pop", pre, t_alloc, .weak = true, .weak_preemptions = 1),
        DENIED("free", pre, t_free),
        DENIED("drain", pre, t_drain),
        DENIED("first-pop", pre_first, t_alloc),
        DENIED("fences-pop", pre_fences, t_alloc, .weak = true, .weak_preemptions = 1),
        DENIED("fences-pop-daemon", pre_fences_daemon, t_alloc, .weak = true, .weak_preemptions = 1),
        DENIED("fences-free", pre_fences, t_free),
        DENIED("fences-drain", pre_fences, t_drain),
};
