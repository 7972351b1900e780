/*
 * Caches: all slots that a thread holds are in its record, even if an actor dies, frees the same object, or freezes the
 * record.
 */
#include "shm/cache/cache.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/epoch/epoch-close.h"
#include "tests/model/calls.h"
#include "tests/model/world.h"
#include "tests/util/maintain.h"

static ShmFreeze freeze; /* control's own: as much of it as there are records */
static ShmActor leaver, next_owner; /* takes over actor 0's record */

/*
 * Objects 0 to 2, of slots two to a slab; actors 0 and 1 cache. Epochs are given as the fast path takes
 * them; object 1 is freed, whose slot no empty stack names by chance.
 */
static void pre(void) {
        world_init(3, 3, 0);
        world_set_caching(0, 1);
        world_set_caching(1, 1);
        world_objects(3, WORLD_SIZE_2, 0);
        world_tidy();
}

/* Actor 0 holds both slots of slab 2 in its cache already. */
static void pre_warm(void) {
        pre();
        world_fill_cache(1, 2, WORLD_SIZE_2);
}

/* As pre(), but a refill takes half a slab: the thread then holds the slab. */
static void pre_small(void) {
        pre();
        world_set_capacity(1, 1, 2);
        world_set_capacity(2, 1, 2);
        world_tidy();
}

/* Actor 0 holds the last of the slabs. */
static void pre_held(void) {
        world_init(4, 4, 0);
        world_set_caching(0, 0);
        world_set_capacity(1, 0, 4);
        world_fill_cache(1, 1, WORLD_SIZE_4);
}

static void pre_warm_control(void) {
        pre_warm();
        freeze = (ShmFreeze){};
        world_set_control(2);
        model_own(2, &freeze, offsetof(ShmFreeze, seq) + 4 * sizeof(freeze.seq[0]));
        model_own(2, freeze.epochs, 4 * sizeof(freeze.epochs[0]));
}

static void pre_one_control(void) {
        pre_warm_control();
        world_actor(1)->mode = SHM_CACHE_OFF;
}

/* That the owner is inside may be seen late. */
static void pre_one_late(void) {
        pre_one_control();
        model_delay(0, &world_actor(0)->record->seq, sizeof(uint64_t));
}

/* Others may see all stores of the owner late: its intent, its cache, tags. So they may control's. */
static void pre_one_all_late(void) {
        pre_one_control();
        world_set_late(0);
        world_set_late(2);
}

static void pre_one_other_late(void) {
        pre_one_all_late();
        world_set_other();
}

/* Membarriers leave out the owner's processor, and its stores are late. */
static void pre_one_left_out(void) {
        pre_one_control();
        world_leave_out(0);
}

/* No membarrier is to be had, and the owner fences for itself. */
static void pre_one_fences(void) {
        pre_one_control();
        world.n_membarrier_errors = UINT32_MAX;
        world_actor(0)->fences = true;
        world_actor(0)->attention = UINT64_MAX; /* as when its copies were made */
        world_actor(0)->record->flags = SHM_RECORD_FENCES;
        world_set_late(0);
}

/* Stores of both owners wait. */
static void pre_two_late(void) {
        pre_warm();
        world_set_late(0);
        world_set_late(1);
}

/* No other record is free. */
static void pre_leave(void) {
        pre_one_control();
        leaver = *world_actor(0);
        next_owner = (ShmActor){};
        model_own(0, &leaver, WORLD_ACTOR_SIZE);
        model_own(1, &next_owner, WORLD_ACTOR_SIZE);
}

static void t_alloc_4(void) {
        world_alloc(1, WORLD_SIZE_4, SHM_EPOCH_CURRENT);
}

static void t_free_alloc(void) {
        world_free(0, 1);
        world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_freeze(void) {
        if (shm_freeze_begin(world_actor(2), &freeze, 1) != 0)
                model_fail("cannot freeze");
        world_look(&freeze);
}

/* Control is another process's at once, in front of the time at which the owner's stores are seen. */
static void t_freeze_handed(void) {
        if (shm_freeze_begin(world_actor(2), &freeze, 1) != 0)
                model_fail("cannot freeze");
        freeze = (ShmFreeze){};
        if (!shm_freeze_resume(world_actor(2), &freeze))
                model_fail("the freeze is over");
        world_look(&freeze);
}

/* Control freezes the owner's record alone, as that of an idle thread. */
static void t_freeze_one(void) {
        const uint64_t records[SHM_RECORDS_MAX / 64] = { UINT64_C(1) << world_actor(0)->id };

        if (shm_freeze_begin_some(world_actor(2), &freeze, records) != 0)
                model_fail("cannot freeze");
        world_look(&freeze);
}

/* Where all records are of threads that fence. */
static void t_freeze_denied(void) {
        (void) shm_freeze_begin(world_actor(2), &freeze, 1);
        world_look(&freeze);
}

static void t_leave(void) {
        shm_cache_leave(&leaver);
}

static void t_next(void) {
        (void) shm_actor_init(&next_owner, &world_arena, 1, 9);
}

/* The record's seq is even with any owner; and where nobody died nothing is left in it. */
static void post_leave(unsigned dead) {
        uint32_t record = world_actor(0)->id;

        world_check(dead);
        if (dead != 0)
                return;
        maintain_finish_left(world_actor(2));
        if (shm_record_owner(&world_arena, record).state !=
            (next_owner.record ? SHM_RECORD_USED : SHM_RECORD_UNUSED))
                model_fail("the record is neither free nor the next owner's");
        if (shm_arena_cache(&world_arena, record, 0, 1)->count != 0)
                model_fail("something is left in the record");
        world_check(dead);
}

static void t_close(void) {
        ShmDrain drain = { .epoch = 0 };

        if (shm_epoch_close(&world_arena, 0, true) != 0)
                model_fail("cannot close");
        t_freeze();
        while (!shm_drain_step(world_actor(2), &drain, 64))
                ;
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "refill-refill", .pre = pre, .actors = { t_alloc, t_alloc_1 }, .post = world_check, .deaths = 1 },
        { .name = "hold-refill", .pre = pre_small, .actors = { t_alloc, t_alloc_1 }, .post = world_check, .deaths = 1,
          .weak = true },
        { .name = "pop-free", .pre = pre_warm, .actors = { t_alloc, t_free_1 }, .post = world_check, .deaths = 1,
          .weak = true },
        { .name = "free-free", .pre = pre_warm, .actors = { t_free, t_free_1 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "free-pop-free", .pre = pre_warm, .actors = { t_free_alloc, t_free_1 }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "drain-refill", .pre = pre_warm, .actors = { t_drain, t_alloc_1 }, .post = world_check, .deaths = 1,
          .weak = true },
        { .name = "drain-held", .pre = pre_held, .actors = { t_drain, t_alloc_4 }, .post = world_check, .deaths = 1,
          .weak = true },
        { .name = "drain-free", .pre = pre_warm, .actors = { t_drain, t_free_1 }, .post = world_check, .deaths = 2,
          .weak = true },
        { .name = "freeze-pop", .pre = pre_one_control, .actors = { t_alloc, t_nothing, t_freeze }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "freeze-pop-late", .pre = pre_one_late, .actors = { t_alloc, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 1 },
        { .name = "freeze-free-late", .pre = pre_one_late, .actors = { t_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 1, .weak = true },
        { .name = "freeze-pop-all-late", .pre = pre_one_all_late, .actors = { t_alloc, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "freeze-free-all-late", .pre = pre_one_all_late, .actors = { t_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "freeze-drain-all-late", .pre = pre_one_all_late, .actors = { t_drain, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "freeze-pop-fences", .pre = pre_one_fences, .actors = { t_alloc, t_nothing, t_freeze_denied },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "freeze-free-fences", .pre = pre_one_fences, .actors = { t_free, t_nothing, t_freeze_denied },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "freeze-drain-fences", .pre = pre_one_fences, .actors = { t_drain, t_nothing, t_freeze_denied },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "freeze-free-other-late", .pre = pre_one_other_late, .actors = { t_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "freeze-pop-left-out", .pre = pre_one_left_out, .actors = { t_alloc, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "freeze-free-left-out", .pre = pre_one_left_out, .actors = { t_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "freeze-pop-push-left-out", .pre = pre_one_left_out,
          .actors = { t_alloc_free, t_nothing, t_freeze }, .post = world_check, .deaths = 1, .late = 2,
          .preemptions = 3 },
        { .name = "handed-free-left-out", .pre = pre_one_left_out, .actors = { t_free, t_nothing, t_freeze_handed },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "handed-pop-left-out", .pre = pre_one_left_out, .actors = { t_alloc, t_nothing, t_freeze_handed },
          .post = world_check, .deaths = 1, .late = 2 },
        { .name = "idle-free-left-out", .pre = pre_one_left_out, .actors = { t_free, t_nothing, t_freeze_one },
          .post = world_check, .deaths = 1, .late = 2, .weak = true },
        { .name = "pop-free-late", .pre = pre_two_late, .actors = { t_alloc, t_free_1 }, .post = world_check,
          .deaths = 1, .late = 3, .weak = true },
        { .name = "free-free-late", .pre = pre_two_late, .actors = { t_free, t_free_1 }, .post = world_check,
          .deaths = 1, .late = 3, .weak = true },
        { .name = "free-pop-free-late", .pre = pre_two_late, .actors = { t_free_alloc, t_free_1 },
          .post = world_check, .deaths = 1, .late = 3, .weak = true },
        { .name = "drain-refill-late", .pre = pre_two_late, .actors = { t_drain, t_alloc_1 }, .post = world_check,
          .deaths = 1, .late = 2, .weak = true },
        { .name = "freeze-free", .pre = pre_one_control, .actors = { t_free, t_nothing, t_freeze }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "freeze-pop-push", .pre = pre_one_control, .actors = { t_alloc_free, t_nothing, t_freeze },
          .post = world_check, .deaths = 1 },
        { .name = "idle-pop-push", .pre = pre_one_control, .actors = { t_alloc_free, t_nothing, t_freeze_one },
          .post = world_check, .deaths = 1 },
        { .name = "idle-free-late", .pre = pre_one_late, .actors = { t_free, t_nothing, t_freeze_one },
          .post = world_check, .deaths = 1, .late = 1, .weak = true },
        { .name = "idle-alloc", .pre = pre_one_control, .actors = { t_alloc, t_alloc_1, t_freeze_one },
          .post = world_check, .deaths = 1, .preemptions = 2 },
        { .name = "freeze-drain", .pre = pre_one_control, .actors = { t_drain, t_nothing, t_freeze },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "freeze-pop-alloc", .pre = pre_one_control, .actors = { t_alloc, t_alloc_1, t_freeze },
          .post = world_check, .deaths = 1, .preemptions = 3 },
        { .name = "freeze-leave", .pre = pre_leave, .actors = { t_leave, t_next, t_freeze }, .post = post_leave,
          .deaths = 1, .preemptions = 4 },
        { .name = "close-pop-push", .pre = pre_one_control, .actors = { t_alloc_free, t_nothing, t_close },
          .post = world_check, .deaths = 1 },
};
/* clang-format on */
