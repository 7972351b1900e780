/*
 * Words of leaves that change in place: ends and counters, while another actor frees the leaf, and gives its slot to an
 * object of its own, the victim. The victim leaves those words as they were. A change that comes late is done to the
 * leaf before it is freed, or not at all, and never to the victim.
 */
#include "shm/maintain/rollback.h"
#include "shm/map/entry/tag.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/unlink.h"
#include "shm/map/trie/trie-remove.h"
#include "tests/model/cell-world.h"
#include "tests/model/control.h"

static void take_slot(unsigned actor) {
        uint64_t handle;

        if (shm_object_alloc(world_actor(actor), WORLD_SIZE_4, 0, NULL, &handle, NULL) != 0)
                return;
        map_wipe_one(handle);
        map_victim = handle;
}

/*
 * The leaf of a has an end, or is a counter; `n_free` slots are free
 */
static void entry_a(unsigned n_free) {
        init_named();
        note_map(MODEL_ACTORS_MAX - 1);
        map_must(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, END));
        map_tries[MODEL_ACTORS_MAX - 1].map = 0;
        (void) world_objects(2 - n_free, WORLD_SIZE_4, 0);
}

static uint64_t counter;

static void counter_a(unsigned n_free) {
        init();
        if (add_to(MODEL_ACTORS_MAX - 1, 0, 5) != 5)
                model_fail("no counter");
        counter = view_of(0).handle;
        (void) world_objects(2 - n_free, WORLD_SIZE_4, 0);
        map_n_left = MAP_N_LEFT_CELL;
}

static void pre_end(void) {
        entry_a(0);
        map_ready(1);
}

/* Actor 1 caches. `is_warm`: a slot that it freed is in its cache, so that its next free is a hit. */
static void set_caching(bool is_warm) {
        uint64_t handle;

        world_set_caching(1, 0);
        if (!is_warm)
                return;
        map_must(shm_object_alloc(world_actor(1), WORLD_SIZE_4, 0, NULL, &handle, NULL));
        map_must(shm_object_free(world_actor(1), handle));
}

static void pre_end_cached(void) {
        entry_a(0);
        set_caching(false);
        map_ready(1);
}

static void pre_end_hit(void) {
        entry_a(1);
        set_caching(true);
        map_ready(1);
}

/* For another leaf, beside that of a. */
static void pre_end_room(void) {
        entry_a(1);
        map_ready(1);
}

static void pre_over(void) {
        entry_a(0);
        set_clock(END);
        map_ready(1);
}

static void pre_over_room(void) {
        entry_a(1);
        set_clock(END);
        map_ready(1);
}

static void pre_counter(void) {
        counter_a(0);
        map_ready(1);
}

static void pre_counter_cached(void) {
        counter_a(0);
        set_caching(false);
        map_ready(1);
}

static void pre_counter_hit(void) {
        counter_a(1);
        set_caching(true);
        map_ready(1);
}

static void pre_counter_room(void) {
        counter_a(1);
        map_ready(1);
}

/* A token bucket, which is not full before END. */
static const ShmMapRate rate = { .cost_ns = SHM_NS_PER_MS, .burst_ns = 2 * END * SHM_NS_PER_MS };

static void limit(unsigned actor) {
        ShmMapKey key = map_key(0);
        uint64_t wait_ns;

        world.results[actor] = shm_map_limit(world_actor(actor), &map_tries[actor], &key, &rate, &wait_ns);
}

static void pre_bucket(void) {
        init();
        set_clock(END);
        limit(MODEL_ACTORS_MAX - 1);
        map_must(world.results[MODEL_ACTORS_MAX - 1]);
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_n_left = MAP_N_LEFT_CELL;
        map_ready(1);
}

/*
 * A change of a word
 */
static void t0_touch(void) {
        touch(0, 0, 2 * END);
}

static void t0_get_touch(void) {
        get_touch(0, 0, 2 * END);
        world.results[0] = world.results[0] > 0 ? 0 : world.results[0];
}

static void t0_add(void) {
        world.results[0] = add_to(0, 0, 1);
}

static void add_at(unsigned actor) {
        int64_t sum = 0;
        int r = shm_map_add_at(world_actor(actor), &map_tries[actor], counter, 1, &sum);

        world.results[actor] = r ?: (int) sum;
}

static void t0_add_at(void) {
        add_at(0);
}

static void t0_limit(void) {
        limit(0);
}

/* The entry is over, which these settle. */
static void t0_delete(void) {
        map_delete(0, 0);
}

static void t0_insert(void) {
        world.results[0] = put_ttl(0, 0, 'x', SHM_MAP_INSERT, 0);
}

static void t0_take(void) {
        take(0);
}

static void t0_expire(void) {
        ShmTrieScan scan = {};

        (void) shm_map_expire(world_actor(0), &map_tries[0], SHM_MAP_EPOCH_ALL, &scan, 10);
        world.results[0] = 0;
}

/*
 * A free of the leaf
 */
static void t1_delete(void) {
        map_delete(1, 0);
        take_slot(1);
}

static void t1_take(void) {
        take(1);
        take_slot(1);
}

static void t1_put(void) {
        world.results[1] = put_ttl(1, 0, 'n', SHM_MAP_PUT, 0);
        take_slot(1);
}

static void t1_pass(void) {
        pass_at(1, END);
        take_slot(1);
}

static void t1_clear(void) {
        ShmTrieScan scan = {};

        (void) shm_map_expire(world_actor(1), &map_tries[1], SHM_MAP_EPOCH_ALL, &scan, 10);
        take_slot(1);
}

/* The map is removed: the first word that is closed has the leaf. */
static void t1_remove(void) {
        (void) shm_trie_drain_step(world_actor(1), map_root, 1);
        take_slot(1);
}

static void post_removed(unsigned dead) {
        map_check_wiped_one(map_victim);
        map_repair(dead);
        if (dead == 0 && map_victim == 0)
                model_fail("the leaf was not freed");
}

/* No slot is lost. */
static void post(unsigned dead) {
        map_check_wiped_one(map_victim);
        map_repair(dead);
        (void) map_check_slots();
}

/* Slots that a thread caches are taken, and their tags even. */
static void post_cached(unsigned dead) {
        map_check_wiped_one(map_victim);
        map_repair(dead);
}

static void post_touch(unsigned dead) {
        post(dead);
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ENOENT)
                model_fail("touch: %d", world.results[0]);
}

/* It was done before, or to a new counter, for which there may be no memory. */
static void post_add(unsigned dead) {
        int r = world.results[0];

        post(dead);
        if (!(dead & 1) && r != 6 && r != 1 && r != -ENOMEM && r != -ESTALE && r != -EINVAL)
                model_fail("add: %d", r);
}

/*
 * A tag is prolonged, as by a put or a touch of an entry that has it
 */
static uint64_t tag;

static ShmMapKey tag_key(void) {
        return (ShmMapKey){ "t", 1, MAP_HASH_FAR };
}

static void pre_tag(void) {
        ShmMapKey key = tag_key();

        init_named();
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                note_map(i);
        map_must(shm_map_tag(world_actor(2), &map_tries[2], &key, 0, &tag));
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

static void t0_hold(void) {
        shm_map_hold_tags(world_actor(0), &map_tries[0], &tag, 1, UINT64_C(1) << 40);
}

static void t1_invalidate(void) {
        ShmMapKey key = tag_key();

        world.results[1] = shm_map_invalidate(world_actor(1), &map_tries[1], &key);
        take_slot(1);
}

/* The tag is evicted. */
static void t1_drop(void) {
        ShmMapKey key = tag_key();
        ShmTrieCursor c;
        ShmMapView view;

        if (shm_map_find(&map_tries[1], &key, &c, &view) == 0)
                (void) shm_map_unlink(world_actor(1), &map_tries[1], &view, &c, SHM_MAP_EVICTIONS);
        take_slot(1);
}

/*
 * Control gives the slot back, and takes it for the victim: from the cache of the thread that freed the leaf, or from
 * the record of a thread that died in front of each access of a delete
 */
static void pre_drain(void) {
        entry_a(0);
        set_caching(false);
        control_init();
        map_ready(1);
}

static void pre_drain_counter(void) {
        counter_a(0);
        set_caching(false);
        control_init();
        map_ready(1);
}

static void t1_delete_only(void) {
        map_delete(1, 0);
}

static void t2_drain(void) {
        control_freeze(1);
        take_slot(2);
}

static void v_delete(void) {
        ShmMapKey key = map_key(0);

        (void) shm_map_delete(&world_actors[1], &map_tries[0], &key, 0);
}

static void pre_died(void) {
        counter_a(0);
        control_init();
        map_ready(1);
        model_cut(v_delete);
        (void) shm_record_mark_dead(&world_arena, 1);
}

/* Plain stores of the thread that adds are seen late. */
static void pre_died_late(void) {
        pre_died();
        world_set_late(1);
}

static void t0_nothing(void) {
}

static void t1_add_at(void) {
        add_at(1);
}

static void t2_repair(void) {
        control_repair();
        take_slot(2);
}

/* The thread dies when the leaf's tag is even, and its words are not closed yet. */
static void pre_dies(void) {
        counter_a(0);
        control_init();
        map_ready(1);
}

static void pre_dies_late(void) {
        pre_dies();
        world_set_late(1);
}

static void die_in_free(void) {
        ShmActor *a = &world_actors[1];
        uint32_t tag_before = shm_handle_tag(world_arena.key, counter), expected = tag_before;
        SlotId id = shm_handle_slot(counter);

        shm_actor_enter(a);
        shm_actor_intend(a, shm_intent_free(tag_before, id));
        if (!shm_cas_acqrel(shm_slot_tag(&world_arena, id), &expected, tag_before + 1))
                model_fail("another thread has freed the counter");
        (void) shm_record_mark_dead(&world_arena, 1);
}

static void t2_die_repair(void) {
        die_in_free();
        t2_repair();
}

/* Until the record is ROLLED_BACK. */
static void repair_half(void) {
        uint32_t budget;

        for (work.repair = (ShmRepair){}; work.repair.state == SHM_REPAIR_ROLLBACK;) {
                budget = 1;
                (void) shm_repair_step(world_actor(2), &work.repair, &work.reach, &budget);
        }
}

static void repair_rest(void) {
        uint32_t budget;

        do
                budget = 4 * SHM_CACHE_MAX;
        while (!shm_repair_step(world_actor(2), &work.repair, &work.reach, &budget));
        take_slot(2);
}

/* A revocation collects the slot before repair comes to it. */
static void t2_die_collect(void) {
        SlotId id = shm_handle_slot(counter);

        die_in_free();
        repair_half();
        shm_reach_init(&work.reach, world_actor(2));
        (void) shm_reach_add_slot(&work.reach, id);
        (void) shm_reach_run(&work.reach);
        take_slot(2);
        repair_rest();
}

/*
 * A thread died in an add, and a revocation, which is not fenced yet, makes the tag even while repair is under way.
 * Repair has waited for guards before that, since the thread also left an object that nobody has the handle of.
 */
static void pre_guarded_late(void) {
        const ShmPending pending = {};
        uint64_t handle;

        counter_a(1);
        map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_4, 0, &pending, &handle, NULL));
        control_init();
        map_ready(1);
        world_set_late(1);
        if (!shm_actor_guard(&world_actors[1], counter))
                model_fail("no counter");
        (void) shm_record_mark_dead(&world_arena, 1);
}

static void t2_mark_in_repair(void) {
        repair_half();
        if (!shm_rollback_object(&world_arena, shm_handle_slot(counter),
                                 shm_handle_tag(world_arena.key, counter)))
                model_fail("another thread has freed the counter");
        shm_repair_fence_again(&work.repair);
        repair_rest();
}

static void post_control(unsigned dead) {
        ShmActor control;

        map_check_wiped_one(map_victim);
        recover_records(&control, dead);
        (void) map_check_slots();
}

#define TWO(_name, _pre, _t0, _t1, _post)                                                                    \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1 }, .post = _post, .deaths = 1,              \
                .preemptions = 3, .full_preemptions = 4, .weak = true                                        \
        }
#define THREE(_name, _pre, _t0, _t1, _t2, _more...)                                                          \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1, _t2 }, .post = post_control,               \
                .preemptions = 2, .full_preemptions = 3, _more                                               \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        TWO("touch-remove", pre_end, t0_touch, t1_remove, post_removed),
        TWO("add-remove", pre_counter, t0_add, t1_remove, post_removed),
        TWO("touch-delete", pre_end, t0_touch, t1_delete, post_touch),
        TWO("get-touch-delete", pre_end, t0_get_touch, t1_delete, post_touch),
        TWO("get-touch-delete-cached", pre_end_cached, t0_get_touch, t1_delete, post_touch),
        TWO("get-touch-delete-hit", pre_end_hit, t0_get_touch, t1_delete, post_cached),
        TWO("get-touch-take", pre_end, t0_get_touch, t1_take, post_touch),
        TWO("get-touch-put", pre_end_room, t0_get_touch, t1_put, post_touch),
        TWO("get-touch-pass", pre_end, t0_get_touch, t1_pass, post_touch),
        TWO("get-touch-clear", pre_end, t0_get_touch, t1_clear, post_touch),
        TWO("add-delete", pre_counter, t0_add, t1_delete, post_add),
        TWO("add-delete-cached", pre_counter_cached, t0_add, t1_delete, post_add),
        TWO("add-take", pre_counter, t0_add, t1_take, post_add),
        TWO("add-take-cached", pre_counter_cached, t0_add, t1_take, post_add),
        TWO("add-take-hit", pre_counter_hit, t0_add, t1_take, post_cached),
        TWO("add-put", pre_counter_room, t0_add, t1_put, post_add),
        TWO("add-at-delete", pre_counter, t0_add_at, t1_delete, post_add),
        TWO("limit-delete", pre_bucket, t0_limit, t1_delete, post),
        TWO("settle-delete", pre_over, t0_delete, t1_delete, post),
        TWO("settle-put", pre_over_room, t0_delete, t1_put, post),
        TWO("settle-insert-delete", pre_over_room, t0_insert, t1_delete, post),
        TWO("settle-take-delete", pre_over, t0_take, t1_delete, post),
        TWO("settle-touch-delete", pre_over, t0_touch, t1_delete, post_touch),
        TWO("settle-expire-delete", pre_over, t0_expire, t1_delete, post),
        TWO("tag-invalidate", pre_tag, t0_hold, t1_invalidate, post),
        TWO("tag-drop", pre_tag, t0_hold, t1_drop, post),
        THREE("get-touch-drain", pre_drain, t0_get_touch, t1_delete_only, t2_drain, .weak = true),
        THREE("add-drain", pre_drain_counter, t0_add, t1_delete_only, t2_drain, .weak = true),
        THREE("add-at-repair", pre_died, t0_nothing, t1_add_at, t2_repair, .variants = true),
        THREE("add-at-free-repair", pre_dies, t0_nothing, t1_add_at, t2_die_repair, .weak = true),
        THREE("add-at-free-repair-late", pre_dies_late, t0_nothing, t1_add_at, t2_die_repair, .late = 2),
        THREE("add-at-free-collect-late", pre_dies_late, t0_nothing, t1_add_at, t2_die_collect, .late = 2),
        THREE("add-at-mark-repair-late", pre_guarded_late, t0_nothing, t1_add_at, t2_mark_in_repair, .late = 2),
        THREE("add-at-repair-late", pre_died_late, t0_nothing, t1_add_at, t2_repair, .variants = true, .late = 2),
};
/* clang-format on */
