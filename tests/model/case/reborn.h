/*
 * Threads take records while control freezes: a record that was never used, or one whose last owner died in an
 * operation, in front of each access in turn, and which control repairs in the middle of a freeze. Once the freeze says
 * that no thread is pending, the new one caches no slot of the closed epoch; no slot is lost, and the record has one
 * owner.
 */
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "shm/epoch/epoch-close.h"

static ShmActor born; /* actor 0's own */

static void begin(uint32_t record) {
        born = (ShmActor){};
        control_init();
        model_own(0, &born, WORLD_ACTOR_SIZE);
        model_watch(shm_arena_cache(&world_arena, record, 0, 1));
}

/* Record 3 is free, and was never used. */
static void pre_first(void) {
        world_init(3, 3, 0);
        world_object(WORLD_SIZE_2, 0);
        world_tidy();
        shm_record_set_unused(&world_arena, 3);
        world_arena.header->n_records_ever.value = 3;
        begin(3);
}

/* The thread that comes caches, and its stores may be late; so may control's. */
static void pre_first_late(void) {
        pre_first();
        world_set_late(0);
        world_set_late(2);
}

static void v_alloc(void) {
        WorldObject *o = &world.objects[world_allocated(2, 0)];
        uint64_t handle;

        o->error = 1;
        o->error = shm_object_alloc(&world_actors[1], WORLD_SIZE_2, 0, NULL, &handle, NULL);
        if (o->error == 0)
                o->handle = handle;
}

static void v_free(void) {
        world.objects[1].n_begun++;
        if (shm_object_free(&world_actors[1], world.objects[1].handle) == 0)
                world.objects[1].n_won++;
}

/* Record 1's owner is dead, with slots in its cache; no other record is free. */
static void pre_again(void (*operation)(void)) {
        calls_init(3);
        begin(1);
        model_cut(operation);
}

static void pre_pop(void) {
        pre_again(v_alloc);
}

static void pre_free(void) {
        pre_again(v_free);
}

static void alloc_born(void) {
        WorldObject *o = &world.objects[world_allocated(0, 0)];
        uint64_t handle = 0;

        born.mode = SHM_CACHE_ON;
        o->error = 1;
        o->error = shm_object_alloc(&born, WORLD_SIZE_2, SHM_EPOCH_CURRENT, NULL, &handle, NULL);
        o->handle = handle;
}

static void t_born(void) {
        if (shm_actor_init(&born, &world_arena, 1, 9) == 0)
                alloc_born();
}

static void t_born_free(void) {
        WorldObject *o = &world.objects[world_allocated(0, 0)];

        t_born();
        if (o->handle == 0)
                return;
        o->n_begun++;
        if (shm_object_free(&born, o->handle) == 0)
                o->n_won++;
}

static void t_close(void) {
        if (shm_epoch_close(&world_arena, 0, true) != 0)
                model_fail("cannot close");
        control_close(0);
        world.results[2] = (int32_t) work.close.n_pending;
}

/* A freeze that began before control knew of the death goes on after the record was repaired; then another. */
static void t_freeze_repair(void) {
        (void) shm_freeze_begin(world_actor(2), &freeze, 1);
        (void) shm_freeze_step(world_actor(2), &freeze, 4, UINT64_MAX);
        (void) shm_record_mark_dead(&world_arena, 1);
        control_repair();
        (void) shm_freeze_step(world_actor(2), &freeze, 4, UINT64_MAX);
        control_freeze(1);
}

/* Once the freeze says that nobody is pending, no cache has slots of the closed epoch, nor can get any. */
static void post_closed(unsigned dead) {
        ShmCache *cache = shm_arena_cache(&world_arena, 3, 0, 1);
        bool pending = world.results[2] != 0;

        if (dead != 0)
                return;
        if (pending && !(shm_arena_record(&world_arena, 3)->attention & 1))
                model_fail("a thread is pending, and not frozen");
        if (pending)
                return;
        if (cache->count != 0)
                model_fail("the new thread caches of a closed epoch");
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);
                SlabState state = slab_word_state(w);

                if (slab_word_epoch(w) == 0 && state >= SLAB_PARTIAL && state <= SLAB_FULL)
                        model_fail("slab %u of the closed epoch is %s", slab, slab_state_to_string(state));
        }
}

/* The owner of record 1 is dead, unless control gave the record to the new thread, which lives. */
static void post(unsigned dead) {
        ShmActor control;
        bool lives = born.record && !(dead & 1);

        if (!lives)
                (void) shm_record_mark_dead(&world_arena, 1);
        recover_records(&control, dead & 2);
        if (shm_record_owner(&world_arena, 1).state != (lives ? SHM_RECORD_USED : SHM_RECORD_UNUSED))
                model_fail("record 1 is not what it should be");
        if (!lives)
                shm_arena_record(&world_arena, 1)->seq = 0; /* odd as long as nobody has it */
        recover_check(dead & 2);
}

#define AGAIN(_name, _pre, _t0, _t1, _more...)                                                               \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1, t_freeze_repair }, .post = post,           \
                .variants = true, _more                                                                      \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "first", .pre = pre_first, .actors = { t_born, t_nothing, t_close }, .post = post_closed,
          .weak = true, .weak_preemptions = 1 },
        { .name = "first-late", .pre = pre_first_late, .actors = { t_born, t_nothing, t_close }, .post = post_closed,
          .late = 3, .preemptions = 3 },
        AGAIN("pop", pre_pop, t_born_free, t_nothing, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        AGAIN("free", pre_free, t_born_free, t_nothing, .deaths = 1, .preemptions = 2, .full_preemptions = 3),
        AGAIN("pop-alloc", pre_pop, t_born, t_alloc_1, .preemptions = 1, .full_preemptions = 2),
};
/* clang-format on */
