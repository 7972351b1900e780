/*
 * An epoch is revoked while threads free objects, and take the slabs that become free for another epoch. Each object of
 * the epoch is freed once, by a thread or by the revocation, and objects of the other epoch live.
 */
#include <string.h>

#include "shm/maintain/check.h"
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"
#include "shm/epoch/epoch-close.h"
#include "tests/model/world.h"
#include "tests/util/maintain.h"

/* The maintainer's own. */
static ShmRevoke revoke;
static ShmReach reach;

/* The checker's own. */
static _Alignas(16) uint8_t check_memory[4096];
static ShmCheck result;

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
        world_fence();
        do
                budget = 4096;
        while (!shm_revoke_collect(world_actor(0), &revoke, &reach, &budget));
}

/* To its end: where nothing is in a thread's hand, there is one round. */
static void t_revoke_all(void) {
        t_revoke();
        shm_epoch_set_revoked(&world_arena, &revoke.eras);
}

static void pre_check(void) {
        pre();
        if (shm_check_size(&world_arena, 1) > sizeof(check_memory))
                model_fail("a check needs more memory");
        memset(check_memory, 0, sizeof(check_memory));
        model_own(1, check_memory, sizeof(check_memory));
        model_own(1, &result, sizeof(result));
}

/* A slot that was given back after the checker's last look at it is not lost, though nothing is being revoked now. */
static void t_check(void) {
        ShmCheckRun *run = shm_check_begin(check_memory, &world_arena, 1, NULL, &result);

        while (shm_check_step(run, UINT32_MAX))
                ;
        if (result.lost_slots + result.doubled_slots > 0)
                model_fail("the check finds %lu slots lost, %lu doubled", (unsigned long) result.lost_slots,
                           (unsigned long) result.doubled_slots);
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
          .deaths = 1,
          .weak = true,
          .weak_preemptions = 1 },
        { .name = "reuse",
          .pre = pre,
          .actors = { t_revoke, t_free_and_alloc },
          .post = post,
          .deaths = 2,
          .weak = true },
        { .name = "reuse-other",
          .pre = pre,
          .actors = { t_revoke, t_free, t_alloc },
          .post = post,
          .deaths = 1,
          .weak = true,
          .weak_preemptions = 1 },
        { .name = "check",
          .pre = pre_check,
          .actors = { t_revoke_all, t_check },
          .post = post,
          .deaths = 1,
          .weak = true },
};
