/* Revoking an epoch beside threads that free, and take the slabs that become free for another epoch. */
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"
#include "shm/epoch/epoch-close.h"
#include "tests/model/world.h"
#include "tests/util/maintain.h"

/* The maintainer's own. */
static ShmRevoke revoke;
static ShmReach reach;

/* The one slab is of epoch 1, which is closed, and holds object 0. */
static void pre(void) {
        world_init(1, 1, 0);
        world_object(WORLD_SIZE_2, 1);
        world_tidy();
        if (shm_epoch_revoke(&world_arena, 1, false) != 0)
                model_fail("cannot revoke");
        world_set_control(0);
        reach = (ShmReach){};
        model_own(0, &revoke, sizeof(revoke));
        model_own(0, &reach, sizeof(reach));
}

static void t_revoke(void) {
        uint32_t budget;

        revoke = (ShmRevoke){};
        if (!shm_epoch_revoking(&world_arena, 1, &revoke.eras))
                model_fail("nothing is to be revoked");
        while (!shm_revoke_mark(world_actor(0), &revoke, 64))
                ;
        if (!shm_freeze_fence(&world_arena))
                model_fail("cannot fence");
        do
                budget = 4096;
        while (!shm_revoke_collect(world_actor(0), &revoke, &reach, &budget));
}

static void t_free(void) {
        world_free(1, 0);
}

static void t_free_same(void) {
        world_free(2, 0);
}

static void t_free_and_alloc(void) {
        world_free(1, 0);
        world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_alloc(void) {
        world_alloc(2, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

/* The actor that revoked object 0 freed it; objects allocated meanwhile are not in the epoch, and live. */
static void post(unsigned dead) {
        WorldObject *o = &world.objects[0];

        /* Slots in a thread's hand are collected in a next round; if this one broke off, by the next maintainer. */
        shm_actor_init_daemon(&world_actors[0], &world_arena);
        maintain_repair_control(&world_actors[0], &(ShmRepairCounts){});
        (void) maintain_revoke(&world_actors[0], 1);
        if (!shm_object_live(&world_arena, o->handle) && o->n_won == 0)
                o->n_begun = o->n_won = 1;
        else if (dead == 0 && o->n_won == 0)
                model_fail("the object was neither freed nor revoked");
        world_check(dead);
}

static const ModelCase model_cases[] = {
        { .name = "free",
          .pre = pre,
          .actors = { t_revoke, t_free, t_free_same },
          .post = post,
          .deaths = 1 },
        { .name = "reuse", .pre = pre, .actors = { t_revoke, t_free_and_alloc }, .post = post, .deaths = 2 },
        { .name = "reuse-other",
          .pre = pre,
          .actors = { t_revoke, t_free, t_alloc },
          .post = post,
          .deaths = 1 },
};
