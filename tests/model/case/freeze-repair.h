/*
 * Freezing, with deaths, then repair of all that is left: no slot is lost or doubled. The world's check excuses slots
 * that an intent names: repair gives these back, too.
 */
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "shm/epoch/epoch-close.h"

static ShmActor leaver; /* owns record 1, and is actor 0's */

/* Actor 0 holds both slots of slab 2 in its cache; actor 1 caches. */
static void pre_two(void) {
        calls_init(3);
        world_set_caching(1, 1);
        control_init();
        leaver = *world_actor(0);
        model_own(0, &leaver, WORLD_ACTOR_SIZE);
}

static void pre(void) {
        pre_two();
        world_actor(1)->mode = SHM_CACHE_OFF;
}

static void pre_late(void) {
        pre();
        world_set_late(0);
        world_set_late(2);
}

/* The cache has room for two slots, and is full: a free makes room first. */
static void pre_full(void) {
        ShmCache *cache;

        pre_two();
        cache = shm_arena_cache(&world_arena, 1, 0, 1);
        cache->capacity = cache->room = cache->count;
        cache->last = 0;
}

/* The thread wants an object of another class: that has a cache, too, when the thread has tried. */
static void pre_full_want(void) {
        pre_full();
        model_watch(shm_arena_cache(&world_arena, 1, 0, 2));
}

/* The cache has more slots than a thread may keep of a class that it evicts from, of three slabs. */
static void pre_long(void) {
        world_init(4, 4, 0);
        world_set_caching(0, 0);
        world_set_caching(1, 1);
        world_actor(1)->mode = SHM_CACHE_OFF;
        world_set_capacity(1, 0, 16);
        world_fill_cache(1, 12, WORLD_SIZE_4);
        control_init();
}

static void v_drain(void) {
        ShmActor *a = &world_actors[1];

        shm_actor_enter(a);
        (void) shm_cache_drain(a);
        shm_actor_leave(a);
}

/* Actor 0 died while it emptied its cache, in front of each access in turn. */
static void pre_died(void) {
        pre();
        model_cut(v_drain);
}

/* The process that closes the pool says that the thread is gone. */
static void t_mark_dead(void) {
        (void) shm_record_mark_dead(&world_arena, 1);
}

/* No slab is left for this class, except the cached slots. */
static void t_want(void) {
        world_alloc(0, WORLD_SIZE_1, SHM_EPOCH_CURRENT);
}

static void t_shorten(void) {
        shm_cache_shorten(world_actor(0), slab_key(0, 0, 1), 0);
}

static void t_pending(void) {
        static const ShmPending pending = {};
        WorldObject *o = &world.objects[world_allocated(0, 0)];
        uint64_t handle;

        o->error = 1;
        if (shm_object_alloc(world_actor(0), WORLD_SIZE_2, SHM_EPOCH_CURRENT, &pending, &handle, NULL) == 0) {
                (void) shm_object_publish(world_actor(0), handle);
                o->handle = handle;
        }
        o->error = 0;
}

static void t_leave(void) {
        shm_cache_leave(&leaver);
}

/* The owner of record 1 was dead from the start. */
static void post_died(unsigned dead) {
        recover(dead | 1);
}

static void t_freeze(void) {
        control_freeze(1);
}

/* Epoch 0 is closed, and its freeze left to itself, as by a request that is given up; then comes one of epoch 1. */
static void t_freeze_abandoned(void) {
        (void) shm_epoch_close(&world_arena, 0, true);
        (void) shm_freeze_begin(world_actor(2), &freeze, 1);
        (void) shm_freeze_step(world_actor(2), &freeze, 1, UINT64_MAX);
        control_freeze(2);
        world.results[2] = 1 + (int32_t) freeze.n_left;
}

/* Once no record is left, the request that came first is done, too. */
static void post_abandoned(unsigned dead) {
        if (!(dead & 5) && world.results[2] == 1 && shm_arena_cache(&world_arena, 1, 0, 1)->count != 0)
                model_fail("the thread caches of a closed epoch");
        recover(dead);
}

#define FREEZE(_name, _pre, _t0, _t1, _more...)                                                              \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1, t_freeze }, .post = recover, .deaths = 2, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        FREEZE("pop", pre, t_alloc, t_nothing, .weak = true),
        FREEZE("free", pre, t_free, t_nothing, .weak = true),
        FREEZE("pop-late", pre_late, t_alloc, t_nothing, .late = 2),
        FREEZE("free-late", pre_late, t_free, t_nothing, .late = 2),
        FREEZE("pop-push", pre, t_alloc_free, t_nothing, .preemptions = 3),
        FREEZE("drain", pre, t_drain, t_nothing, .preemptions = 4, .weak = true),
        FREEZE("pending", pre, t_pending, t_nothing, .preemptions = 3, .weak = true),
        FREEZE("leave", pre, t_leave, t_nothing, .preemptions = 3),
        FREEZE("room", pre_full, t_free, t_nothing, .preemptions = 3, .weak = true),
        FREEZE("want", pre_full_want, t_want, t_nothing, .preemptions = 3),
        FREEZE("shorten", pre_long, t_shorten, t_nothing, .preemptions = 2, .full_preemptions = 3),
        FREEZE("two", pre_two, t_alloc, t_free_1, .preemptions = 1, .full_preemptions = 2),
        FREEZE("leave-alloc", pre_two, t_leave, t_alloc_1, .preemptions = 1, .full_preemptions = 2),
        { .name = "abandoned", .pre = pre, .actors = { t_alloc_free, t_nothing, t_freeze_abandoned },
          .post = post_abandoned, .deaths = 1, .preemptions = 3 },
        { .name = "marked-dead", .pre = pre_died, .actors = { t_nothing, t_mark_dead, t_freeze }, .post = post_died,
          .deaths = 1, .variants = true, .weak = true },
};
/* clang-format on */
