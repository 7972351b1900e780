/*
 * Words of leaves that change in place: ends and counters, during deletes, puts and passes, with deaths. A change is
 * done once or not at all, and never to another entry that got the slot; a counter that is taken has all adds.
 */
#include "tests/model/cell-world.h"

/* No slot is free but the one that the delete frees. */
static void pre_reuse(void) {
        init();
        map_must(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, END));
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

static void pre_reuse_counter(void) {
        init();
        if (add_to(MODEL_ACTORS_MAX - 1, 0, 5) != 5)
                model_fail("no counter");
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

static void t0_touch(void) {
        touch(0, 0, 2 * END);
}

static void t0_get_touch(void) {
        get_touch(0, 0, 2 * END);
}

static void t0_add(void) {
        world.results[0] = add_to(0, 0, 1);
}

/* By the handle that the counter had before. */
static uint64_t counter;

static void pre_reuse_counter_at(void) {
        pre_reuse_counter();
        counter = view_of(0).handle;
}

static void t0_add_at(void) {
        int64_t sum = 0;
        int r = shm_map_add_at(world_actor(0), &map_tries[0], counter, 1, &sum);

        world.results[0] = r ?: (int) sum;
}

static void t1_add(void) {
        world.results[1] = add_to(1, 0, 1);
}

static void t1_delete_then_put_b(void) {
        map_delete(1, 0);
        if (world.results[1] == 0)
                world.results[1] = put_ttl(1, 1, 'b', SHM_MAP_PUT, END);
}

static void t1_delete_then_add_b(void) {
        map_delete(1, 0);
        if (world.results[1] == 0)
                world.results[1] = add_to(1, 1, 5);
}

static void post_touch_reuse(unsigned dead) {
        ShmMapView b = view_of(1);

        map_repair(dead);
        if (!(dead & 2) && (world.results[1] != 0 || b.handle == 0))
                model_fail("put of b: %d", world.results[1]);
        if (b.handle != 0 && b.expires != END)
                model_fail("the end of b is %lu", (unsigned long) b.expires);
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ENOENT)
                model_fail("touch: %d", world.results[0]);
        map_check(2, 2);
}

static void post_get_touch_reuse(unsigned dead) {
        int value = world.results[0];

        if (!(dead & 1) && value != 'o' && value != -ENOENT)
                model_fail("touched %d", value);
        world.results[0] = value == 'o' ? 0 : value;
        post_touch_reuse(dead);
}

static void post_add_reuse(unsigned dead) {
        int64_t a = sum_of(0), b = sum_of(1);
        int r = world.results[0];

        map_repair(dead);
        if (!(dead & 2) && !((world.results[1] == 5 && b == 5) || (world.results[1] == -ENOMEM && b == 0)))
                model_fail("add to b: %d, it is %ld", world.results[1], (long) b);
        if (b != 0 && b != 5)
                model_fail("b is %ld", (long) b);
        /* It was done before the delete, or after that to a new one, or there was no memory for a new one. */
        if (dead == 0 && !(r == 6 && a == 0) && !(r == 1 && a == 1) && !(r == -ENOMEM && a == 0))
                model_fail("add to a: %d, it is %ld", r, (long) a);
}

static void post_add_at_reuse(unsigned dead) {
        int r = world.results[0];

        if (dead == 0 && r != 6 && r != -ESTALE)
                model_fail("add at a: %d", r);
        /* As an add that finds no key, and has no memory for a new one. */
        world.results[0] = r == -ESTALE ? -ENOMEM : r;
        post_add_reuse(dead);
}

static void pre_counter(void) {
        init();
        if (add_to(MODEL_ACTORS_MAX - 1, 0, 5) != 5)
                model_fail("no counter");
        map_ready(1);
}

static void t0_take(void) {
        take(0);
}

static void t1_take(void) {
        take(1);
}

static void t1_take_then_add_b(void) {
        take(1);
        (void) add_to(1, 1, 5);
}

/* The counter is `first` at most, without the add of 1 that the other thread makes at the same time. */
static void check_add_take(unsigned dead, int first, int summed) {
        int64_t sum = sum_of(0), b = sum_of(1);
        int r = world.results[0], taken = world.results[1] - TAKEN;
        bool is_added = r == summed || r == 6;

        map_repair(dead);
        if (b != 0 && b != 5)
                model_fail("b is %ld", (long) b);
        if (dead == 0 && !(is_added && taken == first + 1 && sum == 0) &&
            !(r == 1 && taken == first && sum == 1) &&
            !((r == -ENOMEM || r == -ESTALE) && taken == first && sum == 0))
                model_fail("add %d, took %d, it is %ld", r, taken, (long) sum);
        if (sum != 0 && sum != 1 && sum != 5 && sum != first && sum != first + 1)
                model_fail("the sum is %ld", (long) sum);
}

static void post_add_take(unsigned dead) {
        check_add_take(dead, 5, 6);
}

/* The counter is its own complement when it is taken. */
static void t1_turn_then_take(void) {
        (void) add_to(1, 0, -11);
        take(1);
}

static void post_add_turn_take(unsigned dead) {
        if (dead == 0)
                check_add_take(dead, -6, -5);
        else
                map_repair(dead);
        if (map_check_slots() != 1U + (view_of(0).handle != 0))
                model_fail("an object is lost");
}

static void post_take_take(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        map_repair(dead);
        if (dead == 0 && !(x == TAKEN + 5 && y == -ENOENT) && !(x == -ENOENT && y == TAKEN + 5))
                model_fail("took %d and %d", x, y);
        if (sum_of(0) != 0 && (sum_of(0) != 5 || !(dead == 3)))
                model_fail("the sum is %ld", (long) sum_of(0));
        if (map_check_slots() != 1U + (sum_of(0) != 0))
                model_fail("an object is lost");
}

static void t0_get(void) {
        ShmMapKey key = map_key(0);
        int64_t sum = 0;
        ssize_t n = shm_map_get(&map_tries[0], &key, &sum, sizeof(sum), NULL);

        world.results[0] = n < 0 ? (int) n : TAKEN + (int) sum;
}

static void post_get_take(unsigned dead) {
        int got = world.results[0];

        map_repair(dead);
        if (!(dead & 1) && got != TAKEN + 5 && got != -ENOENT)
                model_fail("got %d", got - TAKEN);
        if (!(dead & 2) && world.results[1] != TAKEN + 5)
                model_fail("took %d", world.results[1] - TAKEN);
}

static void pre_absent(void) {
        init();
        map_ready(1);
}

static void post_add_add(unsigned dead) {
        int64_t sum = sum_of(0);
        int x = world.results[0], y = world.results[1];

        map_repair(dead);
        if (dead == 0 && (sum != 2 || x + y != 3))
                model_fail("sums %d and %d, it is %ld", x, y, (long) sum);
        if (sum < 2 - __builtin_popcount(dead) || sum > 2)
                model_fail("the sum is %ld", (long) sum);
        if (map_check_slots() != 1U + (sum != 0))
                model_fail("an object is lost");
}

static void post_add_add_there(unsigned dead) {
        int64_t sum = sum_of(0);
        int x = world.results[0], y = world.results[1];

        map_repair(dead);
        if (dead == 0 && (sum != 7 || x + y != 6 + 7))
                model_fail("sums %d and %d, it is %ld", x, y, (long) sum);
        if (sum < 7 - __builtin_popcount(dead) || sum > 7)
                model_fail("the sum is %ld", (long) sum);
}

static void t1_set(void) {
        const ShmMapAdd set = { .delta = 50, .mode = SHM_MAP_ADD_SET };
        ShmMapKey key = map_key(0);
        int64_t value = 0;
        int r = shm_map_add(world_actor(1), &map_tries[1], &key, &set, &value);

        world.results[1] = r ?: (int) value;
}

/* The add was done before, and is gone; or after that. */
static void post_add_set(unsigned dead) {
        int64_t value = sum_of(0);
        int sum = world.results[0];

        map_repair(dead);
        if (dead == 0 && !(sum == 6 && value == 50) && !(sum == 51 && value == 51))
                model_fail("add %d, it is %ld", sum, (long) value);
        if (!(dead & 2) && world.results[1] != 50)
                model_fail("set %d", world.results[1]);
        if (value != 5 && value != 6 && value != 50 && value != 51)
                model_fail("it is %ld", (long) value);
}

#define ROOM INT64_C(1) /* until the range of counters ends */

static void pre_nearly_full(void) {
        init();
        (void) add_to(MODEL_ACTORS_MAX - 1, 0, INT64_MAX - ROOM);
        map_ready(1);
}

/* Two adds of one, for which there is room once. */
static void post_add_add_range(unsigned dead) {
        int64_t value = sum_of(0);
        int x = world.results[0], y = world.results[1];

        map_repair(dead);
        if (value != INT64_MAX && !(dead == 3 && value == INT64_MAX - ROOM))
                model_fail("it is %ld", (long) value);
        if (dead == 0 && (x == -EOVERFLOW) == (y == -EOVERFLOW))
                model_fail("adds %d and %d", x, y);
}

/* Its time is over, when the other actor says so. */
static void pre_end(void) {
        init();
        map_must(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, END));
        map_ready(1);
}

static void t1_insert_after(void) {
        set_clock(END);
        world.results[1] = put_ttl(1, 0, 'n', SHM_MAP_INSERT, 0);
}

static void post_touch_insert(unsigned dead) {
        char a;

        map_repair(dead);
        a = map_get(0);
        /* Where both were done, the touch came later, and was of the new entry. */
        if (dead == 0 && world.results[0] == 0 && world.results[1] == 0 && view_of(0).expires == 0)
                model_fail("an entry was given more time, and was absent");
        if (dead == 0 && a != (world.results[1] == 0 ? 'n' : 'o'))
                model_fail("touch %d, insert %d, value %d", world.results[0], world.results[1], a);
}

static void t1_delete_after(void) {
        set_clock(END);
        map_delete(1, 0);
}

static void post_touch_delete(unsigned dead) {
        int t = world.results[0], d = world.results[1];

        map_repair(dead);
        if (dead == 0 && (t == 0) == (d == -ENOENT))
                model_fail("touch %d, delete %d", t, d);
        if (!(dead & 2) && map_get(0) != 0)
                model_fail("it is there");
}

static void t1_take_after(void) {
        set_clock(END);
        take(1);
}

static void post_touch_take(unsigned dead) {
        int t = world.results[0], taken = world.results[1];

        map_repair(dead);
        if (dead == 0 && !(t == 0 && taken == TAKEN + 'o') && !(t == -ENOENT && taken == -ENOENT))
                model_fail("touch %d, took %d", t, taken - TAKEN);
        if (!(dead & 2) && map_get(0) != 0)
                model_fail("it is there");
}

static void t1_touch_after(void) {
        set_clock(END);
        touch(1, 0, 2 * END);
}

/* The later touch finds no entry, or one that the earlier touch gave more time. */
static void post_touch_touch(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        map_repair(dead);
        if (dead == 0 && x != y)
                model_fail("touches %d and %d", x, y);
        if (!(dead & 2) && (map_get(0) != 0) != (y == 0))
                model_fail("touch %d, value %d", y, map_get(0));
}

static void pre_end_counter_at(void) {
        const ShmMapAdd add = { .delta = 5, .ttl_ms = END };
        ShmMapKey key;
        int64_t sum;

        init();
        key = map_key(0);
        map_must(shm_map_add(world_actor(MODEL_ACTORS_MAX - 1), &map_tries[MODEL_ACTORS_MAX - 1], &key, &add,
                             &sum));
        counter = view_of(0).handle;
        map_ready(1);
}

static void t1_add_at_after(void) {
        int64_t sum = 0;
        int r;

        set_clock(END);
        r = shm_map_add_at(world_actor(1), &map_tries[1], counter, 1, &sum);
        world.results[1] = r ?: (int) sum;
}

static void post_touch_add_at(unsigned dead) {
        int t = world.results[0], sum = world.results[1];

        map_repair(dead);
        if (dead == 0 && !(t == 0 && sum == 6) && !(t == -ENOENT && sum == -ESTALE))
                model_fail("touch %d, add at %d", t, sum);
        if (!(dead & 2) && sum_of(0) != (sum == -ESTALE ? 0 : sum))
                model_fail("add at %d, it is %ld", sum, (long) sum_of(0));
}

static void pre_pass(void) {
        init_entry();
        map_ready(1);
}

static void pre_pass_counter(void) {
        const ShmMapAdd add = { .delta = 5, .ttl_ms = END };
        ShmMapKey key;
        int64_t sum;

        init_named();
        key = map_key(0);
        note_map(MODEL_ACTORS_MAX - 1);
        map_must(shm_map_add(world_actor(MODEL_ACTORS_MAX - 1), &map_tries[MODEL_ACTORS_MAX - 1], &key, &add,
                             &sum));
        map_tries[MODEL_ACTORS_MAX - 1].map = 0;
        map_ready(1);
}

static void post_touch_pass(unsigned dead) {
        char a;

        map_repair(dead);
        a = map_get(0);
        if (dead == 0 && a != (world.results[0] == 0 ? 'o' : 0))
                model_fail("touch %d, value %d", world.results[0], a);
}

static void post_take_pass(unsigned dead) {
        int taken = world.results[0];

        map_repair(dead);
        if (!(dead & 1) && taken != TAKEN + 5 && taken != -ENOENT)
                model_fail("took %d", taken - TAKEN);
        if (!(dead & 1) && view_of(0).handle != 0 && !view_of(0).is_over)
                model_fail("it is there");
}

static void t1_put_n(void) {
        world.results[1] = put_ttl(1, 0, 'n', SHM_MAP_PUT, 0);
}

/* The value is that of the entry which has the new end. */
static void post_get_touch_put(unsigned dead) {
        int value = world.results[0];
        uint64_t end = view_of(0).expires;

        map_repair(dead);
        if (dead == 0 && !(value == 'o' && end == 0) && !(value == 'n' && end == 2 * END))
                model_fail("touched %d, the end is %lu", value, (unsigned long) end);
        if (!(dead & 2) && map_get(0) != 'n')
                model_fail("value %d", map_get(0));
}

/* The later touch finds no entry, or one that the earlier touch gave more time: its value can be had. */
static void t1_get_touch_after(void) {
        set_clock(END);
        get_touch(1, 0, 2 * END);
        world.results[1] = world.results[1] == 'o' ? 0 : world.results[1];
}

/* A value that does not change in place. */
static void post_take_put(unsigned dead) {
        int taken = world.results[0];
        char a;

        map_repair(dead);
        a = map_get(0);
        if (dead == 0 && !(taken == TAKEN + 'o' && a == 'n') && !(taken == TAKEN + 'n' && a == 0))
                model_fail("took %d, value %d", taken - TAKEN, a);
        map_check(2, 0);
}

/* An entry that is over is not counted, also while a pass is at it. */
static void pre_pass_over(void) {
        pre_pass();
        set_clock(END);
}

static void t0_count(void) {
        world.results[0] = (int) shm_map_count(&map_tries[0]);
}

static void post_count_pass(unsigned dead) {
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("counted %d", world.results[0]);
}

/* A put at the same time as a pass: a later pass, if one is due, finds the entry. */
static void pre_pass_put(void) {
        pre_pass();
        note_map(0);
}

static void t0_put(void) {
        world.results[0] = put_ttl(0, 1, 'b', SHM_MAP_PUT, END / 2);
}

static void t0_help_after(void) {
        help_at(0, END);
}

/* During a pass: later than the end by which that was due. */
static void t0_put_later(void) {
        world.results[0] = put_ttl(0, 1, 'b', SHM_MAP_PUT, END);
}

static void post_put_pass(unsigned dead) {
        ShmMapSweep sweep = { .miscounted_only = true };

        map_repair(dead);
        /* A maintainer that takes over sweeps all maps. */
        sweep.miscounted_only = !(dead & 2);
        while (!shm_map_sweep_step(&world_actors[0], &sweep, 1))
                ;
        set_clock(2 * END);
        while (world_arena.header->expiry.first != 0 && world_arena.header->expiry.first <= 2 * END)
                (void) shm_expiry_step(&world_actors[0], 2 * END, 1);
        if (view_of(1).handle != 0)
                model_fail("b is there after its end");
        map_check(2, 0);
}

/* The entry has no end; another's, which is no more, is due. */
static ShmMapView endless;

static void pre_endless(bool in_slab) {
        init_named();
        note_map(MODEL_ACTORS_MAX - 1);
        map_must(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, SHM_MAP_TTL_NONE));
        endless = view_of(0);
        if (in_slab)
                shm_expiry_note(&world_arena, endless.handle, END);
        else
                (void) shm_expiry_lower(&world_arena.header->expiry.first, END);
        map_tries[MODEL_ACTORS_MAX - 1].map = 0;
        map_ready(1);
}

static void pre_end_pass(void) {
        pre_endless(true);
}

/* That one was in another slab. */
static void pre_end_first(void) {
        pre_endless(false);
}

/* As a touch, or a put, does in the end. */
static void t0_give_end(void) {
        if (!shm_map_set_end(world_actor(0), &endless, 2 * END))
                model_fail("the end has changed");
        shm_expiry_note(&world_arena, endless.handle, 2 * END);
}

static void post_end_pass(unsigned dead) {
        (void) dead;
        while (world_arena.header->expiry.first != 0 && world_arena.header->expiry.first <= 3 * END)
                pass_at(MODEL_ACTORS_MAX - 1, 3 * END);
        if (view_of(0).handle != 0)
                model_fail("the entry is there after its end");
}

/* Two delete the entry, and it goes once. */
static void post_help_pass(unsigned dead) {
        if (dead == 0 && view_of(0).handle != 0)
                model_fail("it is there");
        post_put_pass(dead);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "touch-reuse", .pre = pre_reuse, .actors = { t0_touch, t1_delete_then_put_b },
          .post = post_touch_reuse, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "add-reuse", .pre = pre_reuse_counter, .actors = { t0_add, t1_delete_then_add_b },
          .post = post_add_reuse, .deaths = 0, .preemptions = 3, .full_preemptions = 4 },
        { .name = "add-at-reuse", .pre = pre_reuse_counter_at, .actors = { t0_add_at, t1_delete_then_add_b },
          .post = post_add_at_reuse, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "add-at-add", .pre = pre_reuse_counter_at, .actors = { t0_add_at, t1_add },
          .post = post_add_add_there, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "add-add", .pre = pre_absent, .actors = { t0_add, t1_add },
          .post = post_add_add, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "add-add-there", .pre = pre_reuse_counter, .actors = { t0_add, t1_add },
          .post = post_add_add_there, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "add-take", .pre = pre_reuse_counter, .actors = { t0_add, t1_take_then_add_b },
          .post = post_add_take, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "add-at-take", .pre = pre_reuse_counter_at, .actors = { t0_add_at, t1_take },
          .post = post_add_take, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "add-turn-take", .pre = pre_counter, .actors = { t0_add, t1_turn_then_take },
          .post = post_add_turn_take, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "add-set", .pre = pre_counter, .actors = { t0_add, t1_set },
          .post = post_add_set, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "add-add-range", .pre = pre_nearly_full, .actors = { t0_add, t1_add },
          .post = post_add_add_range, .deaths = 2, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "take-take", .pre = pre_counter, .actors = { t0_take, t1_take },
          .post = post_take_take, .deaths = 2, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "get-take", .pre = pre_counter, .actors = { t0_get, t1_take },
          .post = post_get_take, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "take-pass", .pre = pre_pass_counter, .actors = { t0_take, t1_pass_after },
          .post = post_take_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "take-put", .pre = pre_end, .actors = { t0_take, t1_put_n },
          .post = post_take_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "touch-delete", .pre = pre_end, .actors = { t0_touch, t1_delete_after },
          .post = post_touch_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-insert", .pre = pre_end, .actors = { t0_touch, t1_insert_after },
          .post = post_touch_insert, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-take", .pre = pre_end, .actors = { t0_touch, t1_take_after },
          .post = post_touch_take, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-touch", .pre = pre_end, .actors = { t0_touch, t1_touch_after },
          .post = post_touch_touch, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "get-touch-reuse", .pre = pre_reuse, .actors = { t0_get_touch, t1_delete_then_put_b },
          .post = post_get_touch_reuse, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "get-touch-put", .pre = pre_end, .actors = { t0_get_touch, t1_put_n },
          .post = post_get_touch_put, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-get-touch", .pre = pre_end, .actors = { t0_touch, t1_get_touch_after },
          .post = post_touch_touch, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-add-at", .pre = pre_end_counter_at, .actors = { t0_touch, t1_add_at_after },
          .post = post_touch_add_at, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "touch-pass", .pre = pre_pass, .actors = { t0_touch, t1_pass_after },
          .post = post_touch_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "count-pass", .pre = pre_pass_over, .actors = { t0_count, t1_pass_after },
          .post = post_count_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "put-later-pass", .pre = pre_pass_put, .actors = { t0_put_later, t1_pass_after },
          .post = post_put_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "end-pass", .pre = pre_end_pass, .actors = { t0_give_end, t1_pass_after },
          .post = post_end_pass, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "end-first-pass", .pre = pre_end_first, .actors = { t0_give_end, t1_pass_after },
          .post = post_end_pass, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "touch-help", .pre = pre_pass, .actors = { t0_touch, t1_help_after },
          .post = post_touch_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "help-pass", .pre = pre_pass, .actors = { t0_help_after, t1_pass_after },
          .post = post_help_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "put-help", .pre = pre_pass_put, .actors = { t0_put, t1_help_after },
          .post = post_put_pass, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "put-pass", .pre = pre_pass_put, .actors = { t0_put, t1_pass_after },
          .post = post_put_pass, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
};
/* clang-format on */
