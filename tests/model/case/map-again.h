/*
 * A thread adds to the counter that it found last, while other actors change the map so that this counter is no longer
 * the key's. A thread that was told that the key is absent never adds to the counter that was there before.
 */
#include "shm/epoch/epoch-close.h"
#include "shm/maintain/revoke.h"
#include "tests/model/cell-world.h"

#define OLD 5 /* the sum that is there before */
#define ADDED 1

/* Actor 0 made the counter, and found it again. */
static void make_counter(uint64_t ttl_ms, uint32_t epoch) {
        const ShmMapAdd add = { .delta = OLD, .ttl_ms = ttl_ms, .epoch = epoch };
        ShmMapKey key = map_key(0);
        int64_t sum = 0;

        map_must(shm_map_add(world_actor(0), &map_tries[0], &key, &add, &sum));
        if (sum != OLD || add_to(0, 0, 0) != OLD)
                model_fail("no counter");
}

static void pre_counter(void) {
        init();
        make_counter(0, 0);
        map_ready(1);
}

/* No slot is free but the one that a delete frees. */
static void pre_reuse(void) {
        init();
        make_counter(0, 0);
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

/* Another thread changed it since, so actor 0 reads it twice. */
static void pre_turn(void) {
        init();
        make_counter(0, 0);
        (void) add_to(0, 0, 1);
        (void) add_to(MODEL_ACTORS_MAX - 1, 0, -1);
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

static void pre_end(void) {
        init_named();
        note_map(0);
        make_counter(END, 0);
        map_tries[0].map = 0;
        map_ready(1);
}

/* b is beside the counter in a node that goes with it. */
static void pre_node(void) {
        map_shape = MAP_SHRINKS;
        map_init(2, 0, MAP_HASH, UINT64_C(1) << 61, 0);
        map_shape = MAP_FIXED;
        map_entry(1, 'b', 0);
        make_counter(0, 0);
        map_ready(2);
}

#define was_absent world.notes[0] /* to actor 0, before its add */

static void t0_get_add(void) {
        ShmMapKey key = map_key(0);
        int64_t sum;

        was_absent = shm_map_get(&map_tries[0], &key, &sum, sizeof(sum), NULL) < 0;
        world.results[0] = add_to(0, 0, ADDED);
}

static void t1_delete(void) {
        map_delete(1, 0);
}

static void t1_delete_then_add_b(void) {
        map_delete(1, 0);
        if (world.results[1] == 0)
                world.results[1] = add_to(1, 1, OLD);
}

static void t1_delete_then_add(void) {
        map_delete(1, 0);
        if (world.results[1] == 0)
                world.results[1] = add_to(1, 0, 10 * OLD);
}

static void t1_delete_b_then_a(void) {
        map_delete(1, 1);
        map_delete(1, 0);
}

static void t1_take(void) {
        take(1);
}

/* An add to the old counter, to another one that is `other`, or to a new one; -ENOMEM. */
static void check_add(unsigned dead, int other) {
        int r = world.results[0];

        if (dead & 1)
                return;
        if (r != OLD + ADDED && r != other + ADDED && r != ADDED && r != -ENOMEM)
                model_fail("add: %d", r);
        if (was_absent && r == OLD + ADDED)
                model_fail("added to a counter that was absent");
}

static void post_delete(unsigned dead) {
        int64_t a = sum_of(0), b = sum_of(1);
        int r = world.results[0];

        map_repair(dead);
        check_add(dead, 0);
        if (b != 0 && b != OLD)
                model_fail("b is %ld", (long) b);
        if (dead == 0 && world.results[1] >= 0 && a != (r == ADDED ? ADDED : 0))
                model_fail("add: %d, it is %ld", r, (long) a);
}

/* The value of b is no sum. */
static void post_delete_node(unsigned dead) {
        map_repair(dead);
        check_add(dead, 0);
        if (dead == 0 && sum_of(0) != (world.results[0] == ADDED ? ADDED : 0))
                model_fail("add: %d, it is %ld", world.results[0], (long) sum_of(0));
}

static void post_delete_add(unsigned dead) {
        int r = world.results[0], s = world.results[1];
        int64_t a = sum_of(0);

        map_repair(dead);
        check_add(dead, 10 * OLD);
        if (dead == 0 && !(r == OLD + ADDED && s == 10 * OLD && a == s) &&
            !(r == ADDED && s == 10 * OLD + ADDED && a == s) && !(s == 10 * OLD && r == s + ADDED && a == r))
                model_fail("adds: %d and %d, it is %ld", r, s, (long) a);
}

static void post_take(unsigned dead) {
        int taken = world.results[1] - TAKEN, r = world.results[0];
        int64_t a = sum_of(0);

        map_repair(dead);
        check_add(dead, 0);
        if (dead == 0 && !(r == OLD + ADDED && taken == r && a == 0) &&
            !(r == ADDED && taken == OLD && a == ADDED))
                model_fail("add %d, took %d, it is %ld", r, taken, (long) a);
}

static void post_end(unsigned dead) {
        map_repair(dead);
        check_add(dead, 0);
        if (dead == 0 && world.results[0] == OLD + ADDED && sum_of(0) != 0)
                model_fail("added after its end");
}

/*
 * Epoch 1 is revoked, with the counter or with the index.
 */
#define REVOKED 1

static void pre_revoked(void) {
        map_init(2, 0, MAP_HASH, MAP_HASH_FAR, 0);
        make_counter(0, REVOKED);
        map_ready(2);
}

/* The counter is in another epoch. */
static void pre_revoked_index(void) {
        map_init(2, REVOKED, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(1, 'b', 0);
        make_counter(0, 0);
        map_ready(2);
}

static void t1_mark(void) {
        ShmRevoke revoke = {};

        map_must(shm_epoch_revoke(&world_arena, shm_epoch_number(REVOKED, 1), false));
        (void) shm_epoch_revoking(&world_arena, REVOKED, &revoke.eras);
        while (!shm_revoke_mark(world_actor(1), &revoke, 1))
                ;
        world.results[1] = add_to(1, 0, 0);
}

static void post_revoked(unsigned dead) {
        if (dead == 0 && was_absent && world.results[0] == OLD + ADDED)
                model_fail("added to a counter that was absent");
        if (dead == 0 && world.results[0] != OLD + ADDED && world.results[0] != ADDED)
                model_fail("add: %d", world.results[0]);
        if (dead == 0 && world.results[1] > ADDED)
                model_fail("a revoked counter is %d", world.results[1]);
}

/* There is no map any more, for all, once all tags of the index are even. */
static void post_revoked_index(unsigned dead) {
        if (!(dead & 2) && world.results[1] != -EIDRM)
                model_fail("add: %d", world.results[1]);
        if (dead == 0 && add_to(0, 0, ADDED) != -EIDRM)
                model_fail("added, and there is no map");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "delete", .pre = pre_counter, .actors = { t0_get_add, t1_delete },
          .post = post_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "delete-reuse", .pre = pre_reuse, .actors = { t0_get_add, t1_delete_then_add_b },
          .post = post_delete, .deaths = 0, .preemptions = 3, .full_preemptions = 4 },
        { .name = "turn-reuse", .pre = pre_turn, .actors = { t0_get_add, t1_delete_then_add_b },
          .post = post_delete, .deaths = 0, .preemptions = 3, .full_preemptions = 4 },
        { .name = "delete-add", .pre = pre_counter, .actors = { t0_get_add, t1_delete_then_add },
          .post = post_delete_add, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "delete-node", .pre = pre_node, .actors = { t0_get_add, t1_delete_b_then_a },
          .post = post_delete_node, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "take", .pre = pre_counter, .actors = { t0_get_add, t1_take },
          .post = post_take, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "end", .pre = pre_end, .actors = { t0_get_add, t1_pass_after },
          .post = post_end, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "revoke", .pre = pre_revoked, .actors = { t0_get_add, t1_mark },
          .post = post_revoked, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "revoke-index", .pre = pre_revoked_index, .actors = { t0_get_add, t1_mark },
          .post = post_revoked_index, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
};
/* clang-format on */
