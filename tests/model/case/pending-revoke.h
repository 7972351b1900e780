/*
 * A thread allocates a pending object, and writes into it, while its epoch is revoked. The handle may be stale by then,
 * but the slot is not given back before the thread has published the object or taken it back. Actor 2 is control. It
 * uses a slab that became free for an object of its own, into which nobody else writes.
 */
#include "shm/epoch/epoch-close.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "tests/model/map-world.h"

#define WRITTEN UINT64_C(0x1111)
#define victim world.notes[1]

static const ShmPending pending = {};

/* No slab is free but one. */
static void begin(void) {
        world_init(2, 2, 0);
        world_object(WORLD_SIZE_4, 1);
        world_tidy();
}

static void ready(void) {
        control_init();
        map_ready(2);
}

static void pre_uncached(void) {
        begin();
        ready();
}

/* Actor 0 has both slots of the slab in its cache. */
static void pre_cached(void) {
        begin();
        world_set_caching(0, 1);
        world_fill_cache(1, 2, WORLD_SIZE_2);
        ready();
}

/* The cache is to be filled. */
static void pre_refill(void) {
        begin();
        world_set_caching(0, 1);
        world_set_capacity(1, 1, 2);
        ready();
}

static void make_late(void) {
        world_set_late(0);
        world_set_late(2);
}

static void pre_uncached_late(void) {
        pre_uncached();
        make_late();
}

static void pre_cached_late(void) {
        pre_cached();
        make_late();
}

static void pre_uncached_left_out(void) {
        pre_uncached();
        world_leave_out(0);
}

/* 0: there was no memory. */
static uint64_t alloc_and_write(void) {
        WorldObject *o = &world.objects[world_allocated(0, 0)];
        uint64_t handle = 0, *words;
        void *object;
        int r;

        o->error = 1;
        r = shm_object_alloc(world_actor(0), WORLD_SIZE_2, SHM_EPOCH_CURRENT, &pending, &handle, &object);
        if (r) {
                o->error = r;
                return 0;
        }
        words = object;
        shm_store_rlx(&words[1], WRITTEN);
        shm_store_rlx(&words[2], WRITTEN);
        return handle;
}

static void t_publish(void) {
        uint64_t handle = alloc_and_write();

        if (handle == 0)
                return;
        if (shm_object_publish(world_actor(0), handle) != 0)
                model_fail("object %lx was noted, and is not", (unsigned long) handle);
        world.objects[world_allocated(0, 0)].handle = handle;
        world.objects[world_allocated(0, 0)].error = 0;
}

static void t_take_back(void) {
        if (alloc_and_write() == 0)
                return;
        shm_cache_free_pending(world_actor(0));
        world.objects[world_allocated(0, 0)].error = 0;
}

static void t_revoke(void) {
        uint64_t handle;

        if (shm_epoch_revoke(&world_arena, 0, false) != 0)
                model_fail("cannot revoke");
        control_close(0);
        if (world_alloc(2, WORLD_SIZE_1, 1) != 0)
                return;
        handle = world.objects[world_allocated(2, 0)].handle;
        map_wipe(handle);
        victim = handle;
}

static void post(unsigned dead) {
        ShmActor control;

        map_check_wiped(victim);
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                if (!(dead & 1) && shm_record_note(world_actor(0)->record, i) != 0)
                        model_fail("a note stays");
        recover_records(&control, dead);
        control_excuse_revoked();
        recover_check(dead);
}

#define PENDING(_name, _pre, _t0, _more...)                                                                  \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, t_nothing, t_revoke }, .post = post,            \
                .deaths = 1, _more                                                                           \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        PENDING("pop", pre_cached, t_publish, .weak = true, .weak_preemptions = 1),
        PENDING("pop-late", pre_cached_late, t_publish, .preemptions = 2, .full_preemptions = 3, .late = 2),
        PENDING("pop-take-back", pre_cached, t_take_back, .preemptions = 3),
        PENDING("refill", pre_refill, t_publish),
        PENDING("uncached", pre_uncached, t_publish),
        PENDING("uncached-late", pre_uncached_late, t_publish, .preemptions = 2, .full_preemptions = 3, .late = 2),
        PENDING("uncached-left-out", pre_uncached_left_out, t_publish, .preemptions = 2, .full_preemptions = 3,
                .late = 2),
        PENDING("uncached-take-back", pre_uncached, t_take_back, .preemptions = 3),
};
/* clang-format on */
