/*
 * Repair, and the count of free slabs, while threads go on. The shm layer is built with SHM_STEP: before each access of
 * the check, one at a time, others move the very slots that it checks.
 */
#include "shm/maintain/repair.h"

#include "shm/cache/cache-drain.h"
#include "shm/cache/cache.h"
#include "shm/cache/object.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/slab/free-count.h"
#include "shm/slab/slab.h"
#include "tests/util/maintain.h"
#include "tests/util/test.h"

typedef struct World {
        ShmArena arena;
        ShmActor control, later, earlier, dead; /* earlier: its record is read before that of `later` */
} World;

static World world;
static uint64_t steps_left; /* 0: nothing happens */
static bool storms; /* at every few steps, so that a word can be read in one piece */
static void (*move)(World *w);

void shm_step(const void *address) {
        static unsigned n_steps;

        (void) address;
        if (storms && ++n_steps % 5 == 0) {
                storms = false;
                move(&world);
                storms = true;
        }
        if (steps_left > 0 && --steps_left == 0)
                move(&world);
}

static void fill(ShmActor *actor) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, 64, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(actor, handle), 0);
}

/* From the cache that is read last into the one that was read first, by way of the slab. */
static void move_back(World *w) {
        shm_actor_enter(&w->later);
        assert_true(shm_cache_drain(&w->later));
        shm_actor_leave(&w->later);
        fill(&w->earlier);
}

/* From a slot to an object, and into the cache of the thread that frees it. */
static void move_by_object(World *w) {
        uint64_t handles[SHM_CACHE_MAX];
        uint32_t n = 0;

        do
                assert_int_equal(shm_object_alloc(&w->later, 64, 0, NULL, &handles[n++], NULL), 0);
        while (shm_arena_cache(&w->arena, w->later.id, 0, 0)->count > 0);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(shm_object_free(&w->earlier, handles[i]), 0);
}

/*
 * From the cache into the hand of the same thread, under TAKE: out of the stack first, live only then. Our
 * own operations make it live first; an intent may say this all the same.
 */
static void move_to_hand(World *w) {
        ShmCache *cache = shm_arena_cache(&w->arena, w->later.id, 0, 0);
        SlotId id = { cache->slots[cache->count - 1] };

        shm_actor_enter(&w->later);
        shm_actor_intend(&w->later, shm_intent_take(*shm_slot_tag(&w->arena, id) | 1, id));
        shm_cache_set_count(cache, cache->count - 1);
}

static void end_in_hand(World *w) {
        ShmIntent intent = shm_record_intent(&w->arena, w->later.id);

        assert_int_equal(intent.kind, SHM_INTENT_TAKE);
        shm_store_rel(shm_slot_tag(&w->arena, intent.id), intent.tag);
        shm_actor_intend(&w->later, 0);
        shm_actor_leave(&w->later);
        assert_int_equal(shm_object_free(&w->later, shm_handle_make(w->arena.key, intent.id, intent.tag)), 0);
}

/* One slot of whichever slab has room, the dead one's if it may. */
static void claim(World *w) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&w->later, 64, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&w->later, handle), 0);
}

static void init_arena(void) {
        ShmGeometry g = { .slabs_size = 16 * SHM_SLAB_SIZE,
                          .n_records = 4,
                          .n_epochs = 2,
                          .n_classes = 1,
                          .class_size = { 64 } };

        assert_int_equal(shm_arena_create(&world.arena, &g, NULL), 0);
        assert_int_equal(shm_client_add(&world.arena, &(ShmClientInfo){ .pid = 1, .start_time = 1 }), 0);
        shm_actor_init_daemon(&world.control, &world.arena);
        assert_int_equal(shm_actor_init(&world.earlier, &world.arena, 0, 1), 0);
        assert_int_equal(shm_actor_init(&world.later, &world.arena, 0, 2), 0);
        assert_int_equal(shm_actor_init(&world.dead, &world.arena, 0, 3), 0);
        world.earlier.mode = world.later.mode = world.dead.mode = SHM_CACHE_ON;
}

static void init(void) {
        ShmCache *stale, *held;

        init_arena();
        /*
         * The slots that the dead thread was flushing have gone back already, and are in the cache of
         * `later`.
         */
        fill(&world.dead);
        shm_cache_drain_record(&world.dead, world.dead.id, UINT64_MAX);
        fill(&world.later);
        stale = shm_arena_cache(&world.arena, world.dead.id, 0, 0);
        held = shm_arena_cache(&world.arena, world.later.id, 0, 0);
        stale->count = held->count;
        for (uint32_t i = 0; i < held->count; i++)
                stale->slots[i] = held->slots[i];
        shm_actor_intend(&world.dead,
                         shm_intent_other(SHM_INTENT_FLUSH, world.dead.id, 0 << 9 | held->count));
        assert_true(shm_record_mark_dead(&world.arena, world.dead.id));
}

/* They are all somebody's. Returns how many records of dead ones it was done with. */
static uint64_t repair_nothing(void) {
        ShmRepair repair = {};

        while (!maintain_repair_step(&world.control, &repair, 1))
                ;
        assert_int_equal(repair.counts.slots, 0);
        return repair.counts.records;
}

/* True: the n-th step was one of repair's. */
static bool repair_at(uint64_t n) {
        uint64_t n_records;
        ShmCheck check;
        bool moved;

        init();
        steps_left = n;
        n_records = repair_nothing();
        moved = steps_left == 0;
        steps_left = 0;
        if (moved && move == move_to_hand) {
                end_in_hand(&world);
                n_records += repair_nothing(); /* the in flight slots are settled now */
        }
        assert_int_equal(n_records, 1);
        assert_int_equal(shm_check(&world.arena, &check), 0);
        for (size_t i = 0; i < check.n_texts; i++)
                print_error("step %d: %s\n", (int) n, check.texts[i]);
        assert_int_equal(check.problems + check.in_flight_slots, 0);
        shm_arena_deinit(&world.arena);
        return moved;
}

static void test_moved(void (*how)(World *w)) {
        uint64_t n = 1;

        move = how;
        while (repair_at(n))
                n++;
        assert_true(n > 100);
}

static void test_moved_back(void **state) {
        test_moved(move_back);
}

static void test_moved_by_object(void **state) {
        test_moved(move_by_object);
}

static void test_moved_to_hand(void **state) {
        test_moved(move_to_hand);
}

/* Between any few accesses of repair somebody claims in the slab: it is settled by one pass all the same. */
static void test_claims_kept_coming(void **state) {
        uint64_t handles[24]; /* more than a sparse slab has: freed slots go into the cache */
        ShmRepair repair = {};

        init_arena();
        world.earlier.mode = world.later.mode = SHM_CACHE_OFF;
        for (size_t i = 0; i < 24; i++)
                assert_int_equal(shm_object_alloc(&world.earlier, 64, 0, NULL, &handles[i], NULL), 0);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(shm_object_free(&world.dead, handles[2 * i]), 0);
        assert_int_equal(shm_arena_cache(&world.arena, world.dead.id, 0, 0)->count, 4);
        assert_true(shm_record_mark_dead(&world.arena, world.dead.id));
        move = claim;
        storms = true;
        while (!maintain_repair_step(&world.control, &repair, 1))
                ;
        storms = false;
        assert_int_equal(repair.counts.in_flight, 0);
        assert_int_equal(repair.counts.slots, 4);
        assert_int_equal(repair.counts.records, 1);
        assert_int_equal(slab_word_state(shm_slab_word(&world.arena, 0)), SLAB_PARTIAL);
        assert_int_equal(world.control.record->intent_what, 0);
        shm_arena_deinit(&world.arena);
}

static uint64_t kept; /* the one object of a slab that is counted first */

/* A slab that may have been counted is taken; one that was looked at before is FREE now. */
static void take_and_empty(World *w) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&w->later, 64, 1, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&w->earlier, kept), 0);
}

static void take(World *w) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&w->later, 64, 1, NULL, &handle, NULL), 0);
}

static void empty_and_take(World *w) {
        assert_int_equal(shm_object_free(&w->earlier, kept), 0);
        assert_int_equal(shm_object_alloc(&w->earlier, 64, 0, NULL, &kept, NULL), 0);
}

/* FREE slabs behind one with an object. */
static void init_free(void) {
        uint64_t handles[4 * 64];

        init_arena();
        world.earlier.mode = SHM_CACHE_OFF;
        assert_int_equal(shm_object_alloc(&world.earlier, 64, 0, NULL, &kept, NULL), 0);
        for (size_t i = 0; i < 4 * 64; i++)
                assert_int_equal(shm_object_alloc(&world.earlier, 64, 0, NULL, &handles[i], NULL), 0);
        for (size_t i = 0; i < 4 * 64; i++)
                assert_int_equal(shm_object_free(&world.earlier, handles[i]), 0);
        world.arena.header->n_free.value += 3; /* as deaths may leave it */
}

static uint32_t n_free(void) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < world.arena.n_slabs; i++)
                n += slab_word_state(shm_slab_word(&world.arena, i)) == SLAB_FREE;
        return n;
}

/* At the n-th access of a count slabs change: it is right all the same. True: there were so many. */
static bool recount_at(uint64_t n) {
        bool moved;

        init_free();
        steps_left = n;
        assert_true(shm_free_recount(&world.arena));
        moved = steps_left == 0;
        steps_left = 0;
        assert_int_equal(world.arena.header->n_free.value, n_free());
        shm_arena_deinit(&world.arena);
        return moved;
}

static void test_recount_beside(void (*how)(World *w)) {
        uint64_t n = 1;

        move = how;
        while (recount_at(n))
                n++;
        assert_true(n > 16);
}

static void test_recount_beside_take(void **state) {
        test_recount_beside(take);
}

static void test_recount_beside_exchange(void **state) {
        test_recount_beside(take_and_empty);
}

/* Where slabs change all the while it says so, and the next one is right. */
static void test_recount_without_rest(void **state) {
        init_free();
        move = empty_and_take;
        storms = true;
        assert_false(shm_free_recount(&world.arena));
        storms = false;
        assert_true(shm_free_recount(&world.arena));
        assert_int_equal(world.arena.header->n_free.value, n_free());
        shm_arena_deinit(&world.arena);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_moved_back),           cmocka_unit_test(test_moved_by_object),
                cmocka_unit_test(test_moved_to_hand),        cmocka_unit_test(test_claims_kept_coming),
                cmocka_unit_test(test_recount_beside_take),  cmocka_unit_test(test_recount_beside_exchange),
                cmocka_unit_test(test_recount_without_rest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
