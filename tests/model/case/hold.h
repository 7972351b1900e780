/*
 * A held slab: its holder, threads that claim or free, and a daemon that takes the slab away at any time. The holder
 * can give back all that it took, only the daemon takes the slab from it, and no slot is lost or doubled.
 */
#include "tests/model/world.h"

static bool with_control; /* which takes slabs away */

static void pre_free(void) {
        with_control = false;
        world_init(1, 1, 0);
}

static void pre_listed(void) {
        with_control = false;
        world_init(1, 1, 0);
        world_object(WORLD_SIZE_4, 0);
}

/* Holds slab 0, takes more of it, gives all back, releases it. */
static void hold(unsigned actor) {
        ShmActor *a = world_actor(actor);
        uint64_t key = slab_key(0, 0, 1), mask, more;

        shm_actor_enter(a);
        if (shm_slab_hold(a, 0, key, 1, &mask) == 0) {
                /* The CLAIM intent records the held slots; in real use a cache would. */
                if (shm_slab_free_slots(a, 0, mask) != 0)
                        model_fail("held slots cannot be given back");
                if (shm_slab_hold(a, 0, key, 2, &more) == 0 && shm_slab_free_slots(a, 0, more) != 0)
                        model_fail("more held slots cannot be given back");
                shm_actor_intend(a, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
                if (slab_word_holder(shm_slab_word(&world_arena, 0)) == a->id)
                        (void) shm_slab_release(a, 0); /* refused: control did */
                else if (!with_control)
                        model_fail("a held slab is somebody else's");
        }
        shm_actor_intend(a, 0);
        shm_actor_leave(a);
}

static void t_hold(void) {
        hold(0);
}

static void t_also_hold(void) {
        hold(1);
}

static void t_alloc(void) {
        world_alloc(1, WORLD_SIZE_4, 0);
}

static void t_free(void) {
        world_free(1, 0);
}

static void t_alloc_2(void) {
        world_alloc(2, WORLD_SIZE_4, 0);
}

static void t_take_away(void) {
        ShmActor *control = world_actor(2);

        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
        (void) shm_slab_release(control, 0);
        shm_actor_intend(control, 0);
}

static void pre_free_control(void) {
        pre_free();
        with_control = true;
        world_set_control(2);
}

static void pre_listed_control(void) {
        pre_listed();
        with_control = true;
        world_set_control(2);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "hold-claim", .pre = pre_listed, .actors = { t_hold, t_alloc }, .post = world_check,
          .deaths = 2, .weak = true },
        { .name = "hold-claim-free", .pre = pre_free, .actors = { t_hold, t_alloc },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "hold-give-back", .pre = pre_listed, .actors = { t_hold, t_free },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "hold-hold", .pre = pre_free, .actors = { t_hold, t_also_hold },
          .post = world_check, .deaths = 2, .weak = true },
        { .name = "hold-give-back-claim", .pre = pre_listed, .actors = { t_hold, t_free, t_alloc_2 },
          .post = world_check,
          .deaths = 1 },
        { .name = "hold-release-claim", .pre = pre_free_control, .actors = { t_hold, t_alloc, t_take_away },
          .post = world_check, .deaths = 1 },
        { .name = "hold-release-give-back", .pre = pre_listed_control,
          .actors = { t_hold, t_free, t_take_away },
          .post = world_check, .deaths = 1 },
};
/* clang-format on */
