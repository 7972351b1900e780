/*
 * Actors change a map at the same time, with deaths; afterwards repair goes by the notes. The results agree with the
 * order of the changes, a change that returned is done, and no leaf or node is lost.
 */
#include "tests/model/map-world.h"

static void t0_put(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t1_put(void) {
        map_put(1, 0, 'y', SHM_MAP_PUT, 0);
}

static void t0_insert(void) {
        map_put(0, 0, 'x', SHM_MAP_INSERT, 0);
}

static void t1_insert(void) {
        map_put(1, 0, 'y', SHM_MAP_INSERT, 0);
}

static void t0_update(void) {
        map_put(0, 0, 'x', SHM_MAP_UPDATE, 0);
}

static void t0_delete(void) {
        map_delete(0, 0);
}

static void t1_delete(void) {
        map_delete(1, 0);
}

static void t1_put_b(void) {
        map_put(1, 1, 'z', SHM_MAP_PUT, 0);
}

static void pre_empty(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_ready(3);
}

static void pre_one(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(0, 'o', 0);
        map_ready(3);
}

static void check(unsigned dead, unsigned n_keys) {
        map_repair(dead);
        map_check(n_keys, 0);
}

static void post_put_put(unsigned dead) {
        char a;

        check(dead, 2);
        a = map_get(0);
        if (dead == 0 && (world.results[0] || world.results[1] || (a != 'x' && a != 'y')))
                model_fail("puts %d %d, value %d", world.results[0], world.results[1], a);
        if (a == 0 && dead != 3)
                model_fail("a put is lost");
}

static void post_insert_insert(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        char a;

        check(dead, 2);
        a = map_get(0);
        if (dead == 0 && !(x == 0 && y == -EEXIST && a == 'x') && !(y == 0 && x == -EEXIST && a == 'y'))
                model_fail("inserts %d %d, value %d", x, y, a);
        if (dead != 3 && a == 0)
                model_fail("an insert is lost");
}

static void post_update_delete(unsigned dead) {
        int u = world.results[0], d = world.results[1];
        char a;

        check(dead, 2);
        a = map_get(0);
        if (!(dead & 1) && u != 0 && u != -ENOENT)
                model_fail("update %d", u);
        if (!(dead & 2) && (d != 0 || a != 0))
                model_fail("delete %d, value %d", d, a);
        if (!(dead & 1) && u == -ENOENT && a != 0)
                model_fail("update %d, value %d", u, a);
        if (a == 'o' && dead != 3)
                model_fail("the old value is back");
}

/* The put of b splits the word of a. `left`: the state of a after the other actor's change. */
static void check_split(unsigned dead, char left) {
        char a, b;

        check(dead, 2);
        a = map_get(0);
        b = map_get(1);
        if (!(dead & 2) && (world.results[1] != 0 || b != 'z'))
                model_fail("put of b: %d, value %d", world.results[1], b);
        if (!(dead & 1) && (world.results[0] != 0 || a != left))
                model_fail("change of a: %d, value %d", world.results[0], a);
        if (a != left && a != 'o')
                model_fail("a is %d", a);
}

static void post_split_put(unsigned dead) {
        check_split(dead, 'x');
}

static void post_split_delete(unsigned dead) {
        check_split(dead, 0);
}

/* Three keys of one hash: c is there, a comes and goes behind it. */
static void pre_bucket(void) {
        map_init(7, 0, MAP_HASH, MAP_HASH, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(1, 'b', 0);
        map_ready(7);
}

static void pre_bucket_one(void) {
        map_init(7, 0, MAP_HASH, MAP_HASH, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(0, 'o', 0);
        map_ready(7);
}

static void post_bucket_insert(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        check(dead, 3);
        if (dead == 0 && !(x == 0 && y == -EEXIST) && !(y == 0 && x == -EEXIST))
                model_fail("inserts %d %d", x, y);
}

static void post_bucket_delete(unsigned dead) {
        check(dead, 3);
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("put %d", world.results[0]);
        if (map_get(2) != 'c')
                model_fail("c is lost");
}

/* Somebody frees an entry by its handle, as revoking does: two changes meet a word that is stale. */
static void t2_free(void) {
        ShmTrieCursor c;
        ShmMapView view;
        ShmMapKey key = map_key(0);

        if (shm_map_find(&map_tries[2], &key, &c, &view) == 0 && (view.head.epoch & 0xff) == 1)
                (void) shm_object_free(world_actor(2), c.value);
}

static void pre_bucket_stale(void) {
        map_init(7, 0, MAP_HASH, MAP_HASH_FAR, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(0, 'o', 1);
        map_ready(7);
}

static void post_bucket_stale(unsigned dead) {
        check(dead, 3);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "put-put", .pre = pre_empty, .actors = { t0_put, t1_put },
          .post = post_put_put, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "insert-insert", .pre = pre_empty, .actors = { t0_insert, t1_insert },
          .post = post_insert_insert, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "update-delete", .pre = pre_one, .actors = { t0_update, t1_delete },
          .post = post_update_delete, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "split-put", .pre = pre_one, .actors = { t0_put, t1_put_b },
          .post = post_split_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "split-delete", .pre = pre_one, .actors = { t0_delete, t1_put_b },
          .post = post_split_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "bucket-insert-insert", .pre = pre_bucket, .actors = { t0_insert, t1_insert },
          .post = post_bucket_insert, .deaths = 1, .preemptions = 3, .full_preemptions = 5 },
        { .name = "bucket-put-delete", .pre = pre_bucket_one, .actors = { t0_put, t1_delete },
          .post = post_bucket_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 5 },
        { .name = "bucket-stale", .pre = pre_bucket_stale, .actors = { t0_put, t1_delete, t2_free },
          .post = post_bucket_stale, .deaths = 0, .preemptions = 3, .full_preemptions = 4 },
        { .name = "bucket-stale-insert", .pre = pre_bucket_stale, .actors = { t0_put, t1_insert, t2_free },
          .post = post_bucket_stale, .deaths = 0, .preemptions = 3, .full_preemptions = 4 },
};
/* clang-format on */
