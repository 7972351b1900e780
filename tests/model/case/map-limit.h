/*
 * Token buckets, used by several actors at once, and during puts, deletes, adds and passes, with deaths. No more tokens
 * are taken from a bucket than were in it, and the bucket stays until it would be full.
 */
#include "tests/model/cell-world.h"

#define COST_MS 1000U /* the time in which a token comes */
#define BEGUN_MS (COST_MS / 2)
#define OVER_MS (COST_MS + 100) /* after the end of a bucket of which one token was taken, when it was new */

static unsigned n_burst; /* tokens of a full bucket */

static int limit(unsigned actor, unsigned k) {
        const ShmMapRate rate = { n_burst * COST_MS * SHM_NS_PER_MS, COST_MS * SHM_NS_PER_MS, 0 };
        ShmMapKey key = map_key(k);
        uint64_t wait_ns;

        return shm_map_limit(world_actor(actor), &map_tries[actor], &key, &rate, &wait_ns);
}

static void pre_absent(void) {
        init();
        n_burst = 1;
        map_ready(1);
}

/* The last actor has taken a token of the bucket. */
static void take_token(unsigned burst) {
        n_burst = burst;
        map_must(limit(MODEL_ACTORS_MAX - 1, 0));
}

static void pre_bucket(void) {
        init();
        take_token(2);
        map_ready(1);
}

/* No slot is free but the one that a delete frees. */
static void pre_reuse(void) {
        init();
        take_token(2);
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_ready(1);
}

static void pre_pass(void) {
        init_named();
        note_map(MODEL_ACTORS_MAX - 1);
        take_token(3);
        map_tries[MODEL_ACTORS_MAX - 1].map = 0;
        set_clock(BEGUN_MS);
        map_ready(1);
}

static void t0_limit(void) {
        world.results[0] = limit(0, 0);
}

static void t1_limit(void) {
        world.results[1] = limit(1, 0);
}

/* The words of b are those that a had. */
static void t1_delete_then_limit_b(void) {
        map_delete(1, 0);
        if (world.results[1] == 0)
                world.results[1] = limit(1, 1);
}

static void t1_put(void) {
        map_put(1, 0, 'n', SHM_MAP_PUT, 0);
}

static void t1_add(void) {
        world.results[1] = add_to(1, 0, 5);
}

static void t1_pass_over(void) {
        pass_at(1, OVER_MS);
}

static bool is_bucket(const ShmMapView *view) {
        return view->handle != 0 && (view->head.flags & SHM_LEAF_BUCKET);
}

static void check(unsigned dead) {
        ShmMapView a;

        map_repair(dead);
        a = view_of(0);
        if (is_bucket(&a) && a.expires * SHM_NS_PER_MS < (uint64_t) sum_of(0))
                model_fail("its end is %lu, and it is full at %ld ns", (unsigned long) a.expires,
                           (long) sum_of(0));
}

/* Takes what is left. */
static unsigned n_left(void) {
        unsigned n = 0;

        while (limit(MODEL_ACTORS_MAX - 1, 0) == 0)
                n++;
        return n;
}

/* One token was left. */
static void post_limit_limit(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        unsigned n = (x == 0) + (y == 0);

        check(dead);
        if (dead == 0 && !(x == 0 && y == 1) && !(x == 1 && y == 0))
                model_fail("limits %d and %d", x, y);
        if (n + n_left() > 1)
                model_fail("more than one was taken: %d and %d", x, y);
}

static void post_delete_reuse(unsigned dead) {
        ShmMapView b = view_of(1);

        check(dead);
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ENOMEM)
                model_fail("limit: %d", world.results[0]);
        if (b.handle != 0 && (sum_of(1) != COST_MS * SHM_NS_PER_MS || b.expires > COST_MS + 2))
                model_fail("b is %ld, its end %lu", (long) sum_of(1), (unsigned long) b.expires);
}

/* A bucket that is replaced by a value is no bucket. */
static void post_put(unsigned dead) {
        int x = world.results[0];

        check(dead);
        if (!(dead & 1) && x != 0 && x != -EINVAL)
                model_fail("limit: %d", x);
        if (!(dead & 2) && (world.results[1] != 0 || map_get(0) != 'n'))
                model_fail("put %d, value %d", world.results[1], map_get(0));
}

/* One of them makes the cell. */
static void post_add(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        ShmMapView a = view_of(0);

        check(dead);
        if (dead == 0 && !(x == 0 && y == -EINVAL) && !(x == -EINVAL && y == 5))
                model_fail("limit %d, add %d", x, y);
        if ((x == 0 && !is_bucket(&a)) || (y == 5 && (is_bucket(&a) || sum_of(0) != 5)))
                model_fail("limit %d, add %d, it is %ld", x, y, (long) sum_of(0));
}

/* In OVER_MS one token came. */
static void post_pass(unsigned dead) {
        unsigned n;

        check(dead);
        set_clock(OVER_MS);
        n = 1 + (world.results[0] == 0) + n_left();
        if (n > n_burst + OVER_MS / COST_MS || (dead == 0 && world.results[0] != 0))
                model_fail("limit: %d, %u were taken", world.results[0], n);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "limit-limit", .pre = pre_absent, .actors = { t0_limit, t1_limit },
          .post = post_limit_limit, .deaths = 2, .preemptions = 3, .full_preemptions = 5 },
        { .name = "limit-limit-there", .pre = pre_bucket, .actors = { t0_limit, t1_limit },
          .post = post_limit_limit, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "limit-delete-reuse", .pre = pre_reuse, .actors = { t0_limit, t1_delete_then_limit_b },
          .post = post_delete_reuse, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "limit-put", .pre = pre_bucket, .actors = { t0_limit, t1_put },
          .post = post_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "limit-add", .pre = pre_absent, .actors = { t0_limit, t1_add },
          .post = post_add, .deaths = 2, .preemptions = 3, .full_preemptions = 4 },
        { .name = "limit-pass", .pre = pre_pass, .actors = { t0_limit, t1_pass_over },
          .post = post_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
};
/* clang-format on */
