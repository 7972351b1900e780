/*
 * Control advances while threads cache slots. Control may die in it, and the next control takes over. Every object is
 * in the era that was asked for, and at the end nothing is allocated in an era that is over.
 */
#include <errno.h>

#include "tests/model/control.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"

/* Actors 0 and 1 cache; actor 0 has both slots of a slab of this epoch in its cache. */
static void begin(uint32_t epoch) {
        ShmActor *a = &world_actors[1];
        uint64_t handles[2];

        world_init(4, 4, 0);
        world_set_caching(0, 1);
        world_set_caching(1, 1);
        for (uint32_t record = 1; record <= 2; record++)
                model_watch(shm_arena_cache(&world_arena, record, 1, 1));
        for (unsigned i = 0; i < 2; i++)
                if (shm_object_alloc(a, WORLD_SIZE_2, epoch, NULL, &handles[i], NULL) != 0)
                        model_fail("cannot fill the cache");
        for (unsigned i = 0; i < 2; i++)
                (void) shm_object_free(a, handles[i]);
        world_tidy();
        control_init();
}

static void pre_current(void) {
        begin(0);
}

static void pre_next(void) {
        begin(1);
}

static void pre_current_late(void) {
        begin(0);
        world_set_late(0);
        world_set_late(2);
}

/* Record 3 was never used. The advance needs no freeze. */
static ShmActor born;

static void pre_born(void) {
        begin(0);
        (void) shm_epoch_close(&world_arena, 1, true);
        (void) shm_freeze_begin(&world_actors[0], &freeze, 2);
        (void) shm_freeze_step(&world_actors[0], &freeze, 4, UINT64_MAX);
        control_forget();
        (void) shm_record_set_unused(&world_arena, 3);
        shm_store_rlx(&world_arena.header->n_records_ever.value, 3);
        for (uint32_t epoch = 0; epoch < 2; epoch++)
                model_watch(shm_arena_cache(&world_arena, 3, epoch, 1));
        born = (ShmActor){};
        model_own(0, &born, WORLD_ACTOR_SIZE);
}

static void t_born(void) {
        uint64_t handle;

        if (shm_actor_init(&born, &world_arena, 1, 9) != 0)
                return;
        born.mode = SHM_CACHE_ON;
        if (shm_object_alloc(&born, WORLD_SIZE_2, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                (void) shm_object_free(&born, handle);
}

static void t_open(void) {
        uint32_t number;

        if (shm_epoch_advance(&world_arena, &number) != 0)
                model_fail("cannot advance");
}

/* Slabs of the next id's last era drain first. */
static void advance(ShmActor *control) {
        uint32_t number;

        (void) shm_epoch_close(&world_arena, 1, true);
        (void) shm_freeze_begin(control, &freeze, 2);
        (void) shm_freeze_step(control, &freeze, 4, UINT64_MAX);
        (void) shm_epoch_advance(&world_arena, &number);
}

static void v_advance(void) {
        advance(&world_actors[0]);
}

static void v_open(void) {
        uint32_t number;

        (void) shm_epoch_advance(&world_arena, &number);
}

/* After the freeze, of which actor 0 knows. */
static void pre_current_died(void) {
        uint64_t handle;

        begin(0);
        (void) shm_epoch_close(&world_arena, 1, true);
        (void) shm_freeze_begin(&world_actors[0], &freeze, 2);
        (void) shm_freeze_step(&world_actors[0], &freeze, 4, UINT64_MAX);
        if (shm_object_alloc(&world_actors[1], WORLD_SIZE_2, 0, NULL, &handle, NULL) != 0)
                model_fail("cannot allocate");
        (void) shm_object_free(&world_actors[1], handle);
        model_cut(v_open);
        control_forget();
}

static void pre_next_died(void) {
        begin(1);
        model_cut(v_advance);
        control_forget();
}

static void t_nothing(void) {
}

static void t_alloc(void) {
        world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
        world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

/* By number: the era that is to be over, and the one that is to come. */
static void t_alloc_eras(void) {
        world_alloc(0, WORLD_SIZE_2, shm_epoch_number(1, 1));
        world_alloc(0, WORLD_SIZE_2, shm_epoch_number(1, 2));
}

static void t_alloc_free_eras(void) {
        if (world_alloc(0, WORLD_SIZE_2, shm_epoch_number(1, 1)) == 0)
                world_free(0, world_allocated(0, 0));
        world_alloc(0, WORLD_SIZE_2, shm_epoch_number(1, 2));
}

static void t_advance(void) {
        advance(world_actor(2));
}

/* The daemon's: with a round of closing in between. */
static void t_drain_advance(void) {
        uint32_t number;

        (void) shm_epoch_close(&world_arena, 1, true);
        control_close(1);
        (void) shm_epoch_advance(&world_arena, &number);
}

static uint32_t number_of(uint64_t handle) {
        SlabWord w = shm_slab_word(&world_arena, slot_id_slab(shm_handle_slot(handle)));

        return shm_epoch_number(slab_word_epoch(w), slab_word_era(w));
}

/* A live thread allocates now, and checks the epoch that its object gets. */
static void probe(ShmActor *a) {
        uint32_t current = shm_epoch_current(&world_arena), old = shm_epoch_number(0, 1);
        uint64_t handle;

        for (unsigned i = 0; i < 2; i++) {
                if (shm_object_alloc(a, WORLD_SIZE_2, SHM_EPOCH_CURRENT, NULL, &handle, NULL) != 0)
                        continue; /* there are few slabs */
                if (number_of(handle) != current)
                        model_fail("epoch %x is current, record %u allocates in %x", current, a->id,
                                   number_of(handle));
                (void) shm_object_free(a, handle);
        }
        if (current != old && shm_object_alloc(a, WORLD_SIZE_2, old, NULL, &handle, NULL) != -ESHUTDOWN)
                model_fail("record %u allocates in an epoch that was advanced past", a->id);
}

static void check_eras(void) {
        for (unsigned i = 0; i < 2; i++)
                for (unsigned k = 0; k < WORLD_N_ALLOCS; k++) {
                        uint64_t handle = world.objects[world_allocated(i, k)].handle;

                        if (handle != 0 && shm_object_live(&world_arena, handle) &&
                            number_of(handle) == shm_epoch_number(1, 1))
                                model_fail("object %u:%u is in an era that was over", i, k);
                }
}

/* Both of the epochs are as one advance leaves them, or none. */
static void check_table(void) {
        ShmEpochInfo old, next;

        (void) shm_epoch_get(&world_arena, 0, &old);
        (void) shm_epoch_get(&world_arena, 1, &next);
        if (next.current ? old.state == SHM_EPOCH_OPEN || next.state != SHM_EPOCH_OPEN || next.era != 2
                         : !old.current || old.state != SHM_EPOCH_OPEN)
                model_fail("epoch %u is current, states are %u and %u", next.current, (unsigned) old.state,
                           (unsigned) next.state);
        if ((old.flags | next.flags) & SHM_EPOCH_RETIRING)
                model_fail("an advance is under way for ever");
}

static void probe_all(unsigned dead) {
        for (unsigned i = 0; i < 2; i++)
                if (!(dead >> i & 1))
                        probe(world_actor(i));
}

static void post(unsigned dead) {
        check_eras();
        recover(dead);
        check_table();
        probe_all(dead);
}

/* A control that lives has told all threads, and needs no takeover for that. */
static void post_told(unsigned dead) {
        check_eras();
        if (!(dead & 4)) {
                check_table();
                probe_all(dead);
                return;
        }
        post(dead);
}

/* A takeover drains slabs of earlier eras, too. */
static void check_drained(void) {
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);
                SlabState state = slab_word_state(w);

                if (slab_word_epoch(w) == 1 && state >= SLAB_PARTIAL && state <= SLAB_FULL &&
                    shm_epoch_over(&world_arena, 1, slab_word_era(w)))
                        model_fail("slab %u of an era that is over is %s", slab, slab_state_to_string(state));
        }
}

static void post_born(unsigned dead) {
        if (dead == 0)
                probe(&born);
}

/* Objects were asked for by number. */
static void post_eras(unsigned dead) {
        for (unsigned k = 0; k < WORLD_N_ALLOCS; k++) {
                uint64_t handle = world.objects[world_allocated(0, k)].handle;

                if (handle != 0 && shm_object_live(&world_arena, handle) &&
                    number_of(handle) != shm_epoch_number(1, k + 1))
                        model_fail("an object of era %u is in %x", k + 1, number_of(handle));
        }
        recover(dead);
        check_drained();
        check_table();
        probe_all(dead);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "current", .pre = pre_current, .actors = { t_alloc, t_nothing, t_advance }, .post = post_told,
          .deaths = 1, .preemptions = 3, .weak = true },
        { .name = "born", .pre = pre_born, .actors = { t_born, t_nothing, t_open }, .post = post_born, .weak = true,
          .preemptions = 2 },
        { .name = "current-late", .pre = pre_current_late, .actors = { t_alloc, t_nothing, t_advance },
          .post = post_told, .deaths = 1, .preemptions = 2, .late = 2 },
        { .name = "current-two", .pre = pre_current, .actors = { t_alloc, t_alloc_1, t_advance }, .post = post_told,
          .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "eras", .pre = pre_next, .actors = { t_alloc_eras, t_nothing, t_advance }, .post = post_eras,
          .deaths = 1, .preemptions = 3 },
        { .name = "eras-free", .pre = pre_next, .actors = { t_alloc_free_eras, t_nothing, t_drain_advance },
          .post = post_eras, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "again", .pre = pre_current_died, .actors = { t_alloc, t_nothing, control_take_over },
          .post = post_told, .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 2 },
        { .name = "again-eras", .pre = pre_next_died, .actors = { t_alloc_eras, t_nothing, control_take_over },
          .post = post_eras, .deaths = 1, .variants = true, .preemptions = 1, .full_preemptions = 2 },
};
/* clang-format on */
