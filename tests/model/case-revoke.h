/* Revoking an epoch beside threads that free, and take the slabs that become free for another epoch. */
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"
#include "tests/model/world.h"

static ShmRevoke revoke; /* control's own */

/* The one slab is of epoch 1, which is closed, and holds object 0. */
static void pre(void) {
        world_init(1, 1, 0);
        world_object(WORLD_SIZE_2, 1);
        world_tidy();
        if (shm_epoch_close(&world_arena, 1, true) != 0)
                model_fail("cannot close");
        world_set_control(0);
        model_own(0, &revoke, sizeof(revoke));
}

static void t_revoke(void) {
        revoke = (ShmRevoke){ .epoch = 1 };
        while (!shm_revoke_step(world_actor(0), &revoke, 64))
                ;
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

/* Who revoked object 0 freed it; whatever was allocated meanwhile is not of the epoch, and lives. */
static void post(unsigned dead) {
        WorldObject *o = &world.objects[0];

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
