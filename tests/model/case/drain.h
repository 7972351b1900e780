/*
 * Closing an epoch: this walk or the next drains slabs that threads allocate from and free to meanwhile. The epoch is
 * DRAINED only when no slab of it is left.
 */
#include <errno.h>

#include "shm/maintain/drain.h"
#include "shm/slab/pages.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/model/world.h"

/* Epoch 1 is to be closed. Object 0 is alone in its slab, of two slots; another slab is free. */
static void pre_one(void) {
        world_init(2, 2, 0);
        world_object(WORLD_SIZE_2, 1);
        world_set_control(0);
}

/* Objects 0 and 1 fill slab 0. */
static void pre_full(void) {
        world_init(2, 2, 0);
        world_objects(2, WORLD_SIZE_2, 1);
        world_tidy();
        world_set_control(0);
}

/* One slab is free, none was used. */
static void pre_none(void) {
        world_init(1, 1, 0);
        world_set_control(0);
}

/* One slab, that was epoch 1's last and is FREE. */
static void pre_emptied(void) {
        pre_none();
        shm_object_free(&world_actors[0], world.objects[world_object(WORLD_SIZE_2, 1)].handle);
        world.objects[0] = (WorldObject){};
}

static void walk(ShmActor *control, bool final) {
        ShmDrain drain = { .epoch = 1, .final = final };

        while (!shm_drain_step(control, &drain, 64))
                ;
}

static void close_and_drain(void) {
        if (shm_epoch_close(&world_arena, 1, true) != 0)
                model_fail("cannot close");
        walk(world_actor(0), false);
}

/* The one slab there is, with object 0 alone. */
static void pre_last(void) {
        world_init(1, 1, 0);
        world_object(WORLD_SIZE_2, 1);
        world_set_control(0);
}

/* Slab 0 is held, for one slot of it. */
static void pre_held(void) {
        ShmActor *a;
        uint64_t mask;

        world_init(1, 1, 0);
        world_set_control(0);
        a = world_actor(2);
        shm_slab_hold(a, 0, slab_key(1, 1, 1), 2, &mask);
        shm_slab_free_slots(a, 0, mask & -mask);
        world.notes[0] = mask & (mask - 1);
        /* The CLAIM intent records the held slots; in real use a cache would. */
        shm_actor_intend_mask(a, world.notes[0]);
}

/* The same, for none. */
static void pre_held_empty(void) {
        ShmActor *a;

        pre_held();
        a = world_actor(2);
        shm_slab_free_slots(a, 0, world.notes[0]);
        shm_actor_intend(a, 0);
        world_tidy();
}

static void release_held(void) {
        ShmActor *a = world_actor(2);

        shm_actor_intend(a, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
        if (slab_word_holder(shm_slab_word(&world_arena, 0)) == a->id)
                (void) shm_slab_release(a, 0);
        shm_actor_intend(a, 0);
}

static void give_back_held(void) {
        ShmActor *a = world_actor(2);

        if (shm_slab_free_slots(a, 0, world.notes[0]) != 0)
                model_fail("held slots cannot be given back");
        release_held();
}

static void t_nothing(void) {
}

static void t_alloc(void) {
        world_alloc(1, WORLD_SIZE_2, 1);
}

static void t_alloc_2(void) {
        world_alloc(2, WORLD_SIZE_2, 1);
}

static void t_alloc_elsewhere(void) {
        world_alloc(1, WORLD_SIZE_4, 0);
}

static void t_alloc_and_free(void) {
        if (world_alloc(1, WORLD_SIZE_2, 1) == 0)
                world_free(1, world_allocated(1, 0));
}

static void t_free(void) {
        world_free(1, 0);
}

/* The slab becomes free, and is one of epoch 0, which is open. */
static void t_free_and_alloc_elsewhere(void) {
        world_free(1, 0);
        world_alloc(1, WORLD_SIZE_4, 0);
}

static void t_alloc_elsewhere_2(void) {
        world_alloc(2, WORLD_SIZE_4, 0);
}

static void t_free_1(void) {
        world_free(2, 1);
}

static void t_free_and_alloc(void) {
        world_free(1, 0);
        world_alloc(1, WORLD_SIZE_2, 1);
}

/* Two slabs: one PARTIAL of epoch 1's era 1, one free. The next era of it begins, epoch 0 closes. */
static void advance(void) {
        uint32_t number;

        if (shm_epoch_advance(&world_arena, &number) != 0 || number != shm_epoch_number(1, 2))
                model_fail("cannot advance");
}

static void t_alloc_era_1(void) {
        world.results[1] = 1;
        world_alloc(1, WORLD_SIZE_2, shm_epoch_number(1, 1));
}

static void t_alloc_era_2(void) {
        world.results[2] = 2;
        world_alloc(2, WORLD_SIZE_2, shm_epoch_number(1, 2));
}

static void t_alloc_any_era(void) {
        world_alloc(2, WORLD_SIZE_2, 1);
}

/* An object is in a slab of the era that was asked for. */
static void post_eras(unsigned dead) {
        world_check(dead);
        for (unsigned i = 1; i < MODEL_ACTORS_MAX; i++) {
                const WorldObject *o = &world.objects[world_allocated(i, 0)];
                uint32_t era;

                if (o->handle == 0 || world.results[i] == 0)
                        continue;
                era = slab_word_era(shm_slab_word(&world_arena, slot_id_slab(shm_handle_slot(o->handle))));
                if (era != (uint32_t) world.results[i])
                        model_fail("an object of era %d is in a slab of era %u", world.results[i], era);
        }
}

/* Nobody is inside an operation now: a walk finds all there is. Without a death nothing is missed. */
static void post(unsigned dead) {
        ShmEpochInfo info;
        uint32_t n_left = 0;

        world_check(dead);
        if (shm_epoch_get(&world_arena, 1, &info) == 0 && info.state == SHM_EPOCH_DRAINED)
                model_fail("the epoch is drained by a walk that was not the last");
        if (dead)
                return;
        walk(&world_actors[0], true);
        world_check(dead);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);
                SlabState state = slab_word_state(w);

                if (state == SLAB_UNCOMMITTED || slab_word_epoch(w) != 1 || slab_word_class(w) >= 3)
                        continue;
                n_left++;
                if (state != SLAB_DRAINING)
                        model_fail("slab %u of a closed epoch is %s", slab, slab_state_to_string(state));
        }
        if (shm_epoch_get(&world_arena, 1, &info) != 0 || (info.state == SHM_EPOCH_DRAINED) != (n_left == 0))
                model_fail("the epoch's state is %u, %u slabs are left of it", (unsigned) info.state, n_left);
}

/* A slab of an epoch that is open does not drain: nothing would be allocated from it until it is empty. */
static void post_reused(unsigned dead) {
        world_check(dead);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);

                if (slab_word_state(w) == SLAB_DRAINING &&
                    !shm_epoch_over(&world_arena, slab_word_epoch(w), slab_word_era(w)))
                        model_fail("slab %u of epoch %u, which is open, drains", slab, slab_word_epoch(w));
        }
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "drain-reused", .pre = pre_last, .actors = { close_and_drain, t_free_and_alloc_elsewhere },
          .post = post_reused, .deaths = 2 },
        { .name = "drain-reused-other", .pre = pre_last, .actors = { close_and_drain, t_free, t_alloc_elsewhere_2 },
          .post = post_reused, .deaths = 1 },
        { .name = "drain-free", .pre = pre_one, .actors = { close_and_drain, t_free }, .post = post,
          .deaths = 2, .weak = true },
        { .name = "drain-alloc", .pre = pre_one, .actors = { close_and_drain, t_alloc }, .post = post,
          .deaths = 2, .weak = true },
        { .name = "drain-alloc-first", .pre = pre_none, .actors = { close_and_drain, t_alloc }, .post = post,
          .deaths = 2, .weak = true },
        { .name = "drain-alloc-emptied", .pre = pre_emptied, .actors = { close_and_drain, t_alloc },
          .post = post,
          .deaths = 2, .weak = true },
        { .name = "drain-alloc-elsewhere", .pre = pre_emptied,
          .actors = { close_and_drain, t_alloc_elsewhere },
          .post = post, .deaths = 2, .weak = true },
        { .name = "drain-alloc-and-free", .pre = pre_none,
          .actors = { close_and_drain, t_alloc_and_free }, .post = post,
          .deaths = 1, .weak = true },
        { .name = "drain-free-and-alloc", .pre = pre_full,
          .actors = { close_and_drain, t_free_and_alloc }, .post = post,
          .deaths = 1, .weak = true },
        { .name = "drain-free-free", .pre = pre_full, .actors = { close_and_drain, t_free, t_free_1 },
          .post = post,
          .deaths = 1 },
        { .name = "drain-free-alloc", .pre = pre_one, .actors = { close_and_drain, t_free, t_alloc_2 },
          .post = post,
          .deaths = 1 },
        { .name = "eras", .pre = pre_one, .actors = { advance, t_alloc_era_1, t_alloc_era_2 },
          .post = post_eras,
          .deaths = 1, .weak = true },
        { .name = "eras-any", .pre = pre_one, .actors = { advance, t_alloc_era_1, t_alloc_any_era },
          .post = post_eras,
          .deaths = 1 },
        { .name = "drain-release-held", .pre = pre_held_empty,
          .actors = { close_and_drain, t_nothing, release_held },
          .post = post, .deaths = 2, .weak = true },
        { .name = "drain-give-back-held", .pre = pre_held,
          .actors = { close_and_drain, t_nothing, give_back_held }, .post = post,
          .deaths = 1, .weak = true },
};
/* clang-format on */
