/*
 * A check that repairs while threads go on. In a sound arena it finds nothing wrong and changes nothing; in a damaged
 * one it repairs everything. If its maintainer dies, the check of the next maintainer does so.
 *
 * Nobody uses record 3. Actor 2 checks.
 */
#include <errno.h>

#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/slab/pages.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"

#define STRANGER 3

/* The checker's own. */
static _Alignas(16) uint8_t memory[4096];
static ShmCheck result;
static ShmActor born; /* actor 1's own */
static uint64_t n_broken, n_hints; /* pre()'s: so many things are to be repaired, and of these hints */

/* All records are client 1's. */
static void add_client(void) {
        ShmClientInfo info = { .state = SHM_CLIENT_USED };

        do
                if (shm_client_add(&world_arena, &info) != 0)
                        model_fail("no room for a client");
        while (info.index < 1);
}

/* Actors 0 and 1 cache, up to two slots; objects 0 and 1 are in slab 0. */
static void begin(uint32_t n_slabs) {
        world_init(n_slabs, n_slabs, 0);
        add_client();
        for (unsigned i = 0; i < 2; i++) {
                world_set_caching(i, 1);
                world_set_capacity(i + 1, 1, 2);
        }
        world_objects(2, WORLD_SIZE_2, 0);
        (void) shm_record_set_unused(&world_arena, STRANGER);
        world_set_control(2);
        if (shm_check_size(&world_arena, n_slabs) > sizeof(memory))
                model_fail("a check needs more memory");
        memset(memory, 0, sizeof(memory));
        model_own(2, memory, sizeof(memory));
        model_own(2, &result, sizeof(result));
        n_broken = n_hints = 0;
}

/* Actor 0 has both slots of slab 1 in its cache; object 2 is in slab 2. */
static void pre_sound(void) {
        begin(4);
        world_fill_cache(1, 2, WORLD_SIZE_2);
        world_object(WORLD_SIZE_2, 0);
        world_tidy();
}

/* The slot that actor 1 gives back is the only one for actor 0, whose record is looked at first. */
static void pre_moved(void) {
        begin(1);
        world_tidy();
}

/* Object 2's slot is nobody's. */
static void pre_lost(void) {
        WorldObject *o = &world.objects[2];

        pre_sound();
        ++*shm_slot_tag(&world_arena, shm_handle_slot(o->handle));
        *o = (WorldObject){};
        n_broken = 1;
}

/* Slab 2 is in no set of slabs with free slots. */
static void pre_hint(void) {
        pre_sound();
        shm_and_sc(world_arena.sets + shm_set_partial(&world_arena, 0, 1) * world_arena.shape.stride,
                   ~UINT64_C(4));
        n_broken = n_hints = 1;
}

/* Slab 3 is held by a record that nobody has. */
static void pre_held(void) {
        ShmActor *a = &world_actors[STRANGER];
        uint64_t mask;

        pre_sound();
        if (shm_slab_hold(a, 3, slab_key(1, 0, 1), 1, &mask) != 0 || shm_slab_free_slots(a, 3, mask) != 0)
                model_fail("slab 3 cannot be held");
        shm_actor_intend(a, 0);
        n_broken = 1;
}

/* Its pages are being made, or dropped, by nobody. */
static void pre_busy(void) {
        ShmPair *word;

        pre_sound();
        word = &world_arena.lines[3].word;
        if (slab_word_begin(*word, STRANGER, word) != 0)
                model_fail("slab 3 is not free");
        world_arena.header->n_free.value--;
        n_broken = 1;
}

/* Slab 3 was dropped; the first attempt to make it again fails. Record 3 is actor 0's, and is to be actor 1's. */
static void pre_denied(void) {
        world_init(4, 4, 64);
        (void) shm_pages_drop(&world_actors[0], 0, UINT64_C(1) << 3);
        world.populate_errno = ENOMEM;
        world.n_populate_errors = 1;
        born = (ShmActor){};
        world_set_control(2);
        model_own(0, &world_actors[STRANGER], WORLD_ACTOR_SIZE);
        model_own(1, &born, WORLD_ACTOR_SIZE);
}

static void t_free_drain_1(void) {
        world_free(1, 0);
        t_drain_1();
}

static void t_check(void) {
        ShmCheckRun *run = shm_check_begin(memory, &world_arena, shm_arena_n_slabs_ever(&world_arena),
                                           world_actor(2), &result);

        while (shm_check_step(run, UINT32_MAX))
                ;
        if (result.problems > 0)
                model_fail("the check says: %s", result.texts[0]);
        if (result.repaired != n_broken)
                model_fail("%lu were repaired, %lu were to be", (unsigned long) result.repaired,
                           (unsigned long) n_broken);
}

static void commit_leave(ShmActor *actor) {
        uint32_t n;

        shm_actor_enter(actor);
        (void) shm_pages_commit(actor, 1, &n);
        shm_actor_leave(actor);
        shm_actor_deinit(actor);
}

static void t_commit_leave(void) {
        commit_leave(&world_actors[STRANGER]);
}

static void t_born_commit(void) {
        if (shm_actor_init(&born, &world_arena, 1, 9) == 0)
                commit_leave(&born);
}

/* The owner holds slab 3 at any time. */
static void t_holder(void) {
        if (shm_repair_holder(world_actor(2), 3))
                model_fail("the slab of a thread that lives was taken from it");
}

static void post_holder(unsigned dead) {
        ShmActor control;

        if (dead & 3)
                (void) shm_record_mark_dead(&world_arena, STRANGER);
        recover_records(&control, dead);
        recover_check(dead);
}

static void post(unsigned dead) {
        ShmActor control;
        ShmCheck c;

        recover_records(&control, dead);
        if (dead & 4) {
                if (shm_check(&world_arena, &c) != 0 || c.wrong_hints > n_hints)
                        model_fail("control's death leaves a hint missing");
                if (shm_check_repair(&control, &c) != 0 || c.problems > 0)
                        model_fail("the next check says: %s", c.n_texts > 0 ? c.texts[0] : "no memory");
        }
        recover_check(dead);
}

#define WEAK .weak = true, .weak_preemptions = 1
#define CHECK(_name, _pre, _t0, _t1, _more...)                                                               \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1, t_check }, .post = post, .deaths = 1, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        CHECK("pop", pre_sound, t_alloc, t_nothing, WEAK),
        CHECK("free", pre_sound, t_free, t_nothing, WEAK),
        CHECK("drain", pre_sound, t_drain, t_nothing, WEAK),
        CHECK("refill", pre_sound, t_nothing, t_alloc_1, WEAK),
        CHECK("pop-free", pre_sound, t_alloc_free, t_nothing),
        CHECK("moved", pre_moved, t_alloc_free, t_free_drain_1, .preemptions = 2, .full_preemptions = 3),
        CHECK("lost-refill", pre_lost, t_nothing, t_alloc_1),
        CHECK("lost-drain", pre_lost, t_drain, t_nothing),
        CHECK("hint-free", pre_hint, t_free, t_nothing),
        CHECK("held-refill", pre_held, t_nothing, t_alloc_1, WEAK),
        CHECK("busy-refill", pre_busy, t_nothing, t_alloc_1, WEAK),
        { .name = "holder", .pre = pre_denied, .actors = { t_commit_leave, t_born_commit, t_holder },
          .post = post_holder, .deaths = 1, .weak = true },
};
/* clang-format on */
