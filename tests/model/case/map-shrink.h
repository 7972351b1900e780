/*
 * Nodes of the index are removed during changes and reads, with deaths. The path of a and b forks in one node or, in
 * cases named deep, in a node below that one, which is alone there. Each call finds the entries that nobody deletes,
 * and no needless node is left.
 */
#include "tests/model/map-world.h"

#define HASH_A MAP_HASH
#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)
#define HASH_B_DEEP (UINT64_C(1) << 58)
/* Where b has a word in the lower one of its nodes, that of c and d has an empty one. */
#define HASH_B_DEEPER (UINT64_C(1) << 55)
#define HASH_D_DEEPER (HASH_C | UINT64_C(2) << 55)
#define HASH_B_TOO (HASH_B | UINT64_C(1) << 58) /* its path forks from that of b one level below */

static void init(uint64_t h1, uint64_t h2) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, HASH_A, h1, h2);
        map_shape = MAP_FIXED;
        map_entry(0, 'a', 0);
        map_entry(1, 'b', 0);
}

static void pre_two(void) {
        init(HASH_B, HASH_C);
        map_ready(4);
}

static void pre_deep(void) {
        init(HASH_B_DEEP, HASH_C);
        map_ready(4);
}

/* The third key would go below the word of b. */
static void pre_beside_b(void) {
        init(HASH_B, HASH_B_TOO);
        map_ready(4);
}

static void pre_three(void) {
        init(HASH_B, HASH_C);
        map_entry(2, 'c', 0);
        map_ready(4);
}

/* Actor 0 has an object, so that it can choose the slot of d. */
static void pre_reuse(void) {
        init(HASH_B_DEEPER, HASH_C);
        map_hashes[3] = HASH_D_DEEPER;
        map_entry(2, 'c', 0);
        map_must(shm_object_alloc(&world_actors[0], WORLD_SIZE_4, 0, NULL, &world.notes[0], NULL));
        map_ready(4);
}

static void pre_two_late(void) {
        pre_two();
        world_set_late(0);
}

static void t0_delete_a(void) {
        map_delete(0, 0);
}

static void t1_delete_a(void) {
        map_delete(1, 0);
}

static void t1_delete_b(void) {
        map_delete(1, 1);
}

static void t2_delete_b(void) {
        map_delete(2, 1);
}

static void t1_insert_a(void) {
        map_put(1, 0, 'x', SHM_MAP_INSERT, 0);
}

static void t1_insert_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t2_insert_c(void) {
        map_put(2, 2, 'c', SHM_MAP_INSERT, 0);
}

/* It comes and goes: a node that was renewed for it is to be removed again. */
static void t1_insert_delete_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
        if (world.results[1] == 0)
                map_delete(1, 2);
}

/* Where a was gone before, b is alone again: its node goes at once, though the thread that deleted a may stand. */
static void t1_come_and_go_after(void) {
        ShmTrieCursor c;

        world.results[1] = 0;
        if (map_get_by(&map_tries[1], 0) != 0)
                return;
        t1_insert_delete_c();
        if (shm_trie_seek(&map_tries[1], HASH_B, &c) != 0 || c.depth != 0)
                model_fail("b has %u nodes above it", c.depth);
}

/* The same below the word that b has by then. */
static void t1_insert_delete_a(void) {
        map_put(1, 0, 'x', SHM_MAP_INSERT, 0);
        if (world.results[1] == 0)
                map_delete(1, 0);
}

/* Two nodes of a and b go, and their slots are nodes of c and d next: d takes the slot that was freed last. */
static void t0_reuse_node(void) {
        map_delete(0, 0);
        if (world.results[0] == 0) {
                map_must(shm_object_free(world_actor(0), world.notes[0]));
                map_put(0, 3, 'd', SHM_MAP_INSERT, 0);
        }
}

static void t0_delete_a_update_b(void) {
        map_delete(0, 0);
        if (world.results[0] == 0)
                map_put(0, 1, 'y', SHM_MAP_UPDATE, 0);
}

static void t1_update_b(void) {
        map_put(1, 1, 'y', SHM_MAP_UPDATE, 0);
}

static void t2_update_b(void) {
        map_put(2, 1, 'y', SHM_MAP_UPDATE, 0);
}

static void t1_get_b(void) {
        world.results[1] = map_get_by(&map_tries[1], 1);
}

static void t2_get_b(void) {
        world.results[2] = map_get_by(&map_tries[2], 1);
}

static void t1_get_c(void) {
        world.results[1] = map_get_by(&map_tries[1], 2);
}

/* How often b was met. */
static void t1_scan(void) {
        char buffer[SHM_CLASS_SIZE_MAX];
        ShmTrieScan scan = {};
        ShmMapView view;
        int r, n = 0;

        while ((r = shm_map_next(&map_tries[1], &scan, buffer, sizeof(buffer), &view)) == 1)
                n += buffer[0] == 'b';
        world.results[1] = r < 0 ? r : n;
}

static void t1_count(void) {
        world.results[1] = (int) shm_map_count(&map_tries[1]);
}

/* `changes`: an actor that dies may have done it or not; then either value is right. */
static void expect(unsigned dead, unsigned actor, unsigned k, char before, char after) {
        char value = map_get(k);

        if (value != after && !((dead >> actor & 1) && value == before))
                model_fail("key %u: %d, result %d", k, value, world.results[actor]);
        if (!(dead >> actor & 1) && world.results[actor] != 0)
                model_fail("actor %u: %d", actor, world.results[actor]);
}

static void check(unsigned dead) {
        map_repair(dead);
        map_check(3, 0);
}

static void stays(unsigned k, char value) {
        if (map_get(k) != value)
                model_fail("key %u: %d", k, map_get(k));
}

static void saw(unsigned dead, unsigned actor, int result) {
        if (!(dead >> actor & 1) && world.results[actor] != result)
                model_fail("actor %u saw %d", actor, world.results[actor]);
}

static void post_delete_delete(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 1, 'b', 0);
}

/* Two delete a: one of them does. */
static void post_delete_both(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        check(dead);
        stays(1, 'b');
        if (dead == 0 && !(x == 0 && y == -ENOENT) && !(y == 0 && x == -ENOENT))
                model_fail("deletes %d %d", x, y);
        if (dead != 3)
                stays(0, 0);
}

static void post_insert_c(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 2, 0, 'c');
        stays(1, 'b');
}

static void post_insert_a(unsigned dead) {
        char a;

        check(dead);
        stays(1, 'b');
        a = map_get(0);
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("delete %d", world.results[0]);
        if (dead == 0 && (world.results[1] == 0) != (a == 'x'))
                model_fail("insert %d, value %d", world.results[1], a);
        if (dead == 0 && world.results[1] == -EEXIST && a != 0)
                model_fail("value %d", a);
}

static void post_update_b(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 1, 'b', 'y');
}

static void post_get_b(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        stays(1, 'b');
        saw(dead, 1, 'b');
}

static void post_get_c(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        saw(dead, 1, 0);
}

static void post_scan(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        saw(dead, 1, 1);
}

static void post_count(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        if (!(dead & 2) && world.results[1] != 1 && world.results[1] != 2)
                model_fail("count %d", world.results[1]);
}

static void post_come_and_go(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        stays(1, 'b');
        if (!(dead & 2) && (world.results[1] != 0 || map_get(2) != 0))
                model_fail("result %d, value %d", world.results[1], map_get(2));
}

static void post_come_and_go_update(unsigned dead) {
        check(dead);
        expect(dead, 0, 1, 'b', 'y');
        if (!(dead & 2) && (world.results[1] != 0 || map_get(2) != 0))
                model_fail("result %d, value %d", world.results[1], map_get(2));
}

static void post_come_and_go_below(unsigned dead) {
        int r = world.results[1];

        check(dead);
        stays(1, 'b');
        if (dead == 0 && ((r != 0 && r != -EEXIST) || map_get(0) != 0))
                model_fail("result %d, value %d", r, map_get(0));
}

static void post_delete_insert_get(unsigned dead) {
        post_insert_c(dead);
        saw(dead, 2, 'b');
}

static void post_delete_insert_update(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 2, 0, 'c');
        expect(dead, 2, 1, 'b', 'y');
}

static void post_delete_delete_insert(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 1, 'b', 0);
        expect(dead, 2, 2, 0, 'c');
}

static void post_delete_insert_delete(unsigned dead) {
        check(dead);
        expect(dead, 0, 0, 'a', 0);
        expect(dead, 1, 2, 0, 'c');
        expect(dead, 2, 1, 'b', 0);
}

static void t2_scan(void) {
        char buffer[SHM_CLASS_SIZE_MAX];
        ShmTrieScan scan = {};
        ShmMapView view;
        int r, n = 0;

        while ((r = shm_map_next(&map_tries[2], &scan, buffer, sizeof(buffer), &view)) == 1)
                n += buffer[0] == 'b';
        world.results[2] = r < 0 ? r : n;
}

static void post_reuse_node(unsigned dead) {
        map_repair(dead);
        map_check(4, 0);
        stays(0, 0);
        stays(1, 'b');
        stays(2, 'c');
        stays(3, 'd');
        saw(dead, 1, 'b');
}

static void post_delete_update_get(unsigned dead) {
        check(dead);
        if (world.results[2] != 'b' && world.results[2] != 'y')
                model_fail("get saw %d", world.results[2]);
}

static void post_delete_update_update(unsigned dead) {
        check(dead);
        if (world.results[1] != 0 || world.results[2] != 0)
                model_fail("updates %d %d", world.results[1], world.results[2]);
}

static void post_delete_scan(unsigned dead) {
        check(dead);
        if (world.results[2] != 1)
                model_fail("scan %d", world.results[2]);
}

#define TWO(pre_, t1, post_, n)                                                                              \
        .pre = pre_, .actors = { t0_delete_a, t1 }, .post = post_, .preemptions = n, .full_preemptions = n + 1
#define THREE(pre_, t1, t2, post_, n)                                                                        \
        .pre = pre_, .actors = { t0_delete_a, t1, t2 }, .post = post_, .preemptions = n,                     \
        .full_preemptions = n + 1

/* They need as many to be red, and have too many states for more. */
#define LONG(pre_, t1, t2, post_, n)                                                                         \
        .pre = pre_, .actors = { t0_delete_a, t1, t2 }, .post = post_, .preemptions = n, .full_preemptions = n

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "delete-delete", TWO(pre_two, t1_delete_b, post_delete_delete, 3), .deaths = 2,
          .weak = true, .weak_preemptions = 1 },
        { .name = "delete-both", TWO(pre_two, t1_delete_a, post_delete_both, 3), .deaths = 1 },
        { .name = "delete-insert", TWO(pre_two, t1_insert_c, post_insert_c, 3), .deaths = 1,
          .weak = true, .weak_preemptions = 1 },
        { .name = "delete-insert-again", TWO(pre_two, t1_insert_a, post_insert_a, 3), .deaths = 1 },
        { .name = "delete-update", TWO(pre_two, t1_update_b, post_update_b, 3), .deaths = 1 },
        { .name = "delete-split", TWO(pre_beside_b, t1_insert_c, post_insert_c, 3), .deaths = 1 },
        { .name = "delete-get", TWO(pre_two, t1_get_b, post_get_b, 4), .deaths = 1, .weak = true },
        { .name = "delete-get-absent", TWO(pre_two, t1_get_c, post_get_c, 4), .deaths = 1, .weak = true },
        { .name = "delete-scan", TWO(pre_two, t1_scan, post_scan, 3), .deaths = 1 },
        { .name = "delete-count", TWO(pre_two, t1_count, post_count, 3), .deaths = 1 },
        { .name = "three-delete-delete", TWO(pre_three, t1_delete_b, post_delete_delete, 3), .deaths = 1 },
        { .name = "deep-delete-delete", TWO(pre_deep, t1_delete_b, post_delete_delete, 3), .deaths = 1 },
        { .name = "deep-delete-insert", TWO(pre_deep, t1_insert_c, post_insert_c, 3), .deaths = 1 },
        { .name = "deep-delete-get", TWO(pre_deep, t1_get_b, post_get_b, 3), .deaths = 1, .weak = true },
        { .name = "deep-delete-scan", TWO(pre_deep, t1_scan, post_scan, 2), .deaths = 1 },
        { .name = "come-and-go", TWO(pre_two, t1_insert_delete_c, post_come_and_go, 4),
          .weak = true, .weak_preemptions = 1 },
        { .name = "come-and-go-after", TWO(pre_two, t1_come_and_go_after, post_come_and_go, 2) },
        { .name = "come-and-go-update", .pre = pre_two, .actors = { t0_delete_a_update_b, t1_insert_delete_c },
          .post = post_come_and_go_update, .preemptions = 4, .full_preemptions = 5 },
        { .name = "come-and-go-below", TWO(pre_deep, t1_insert_delete_a, post_come_and_go_below, 3) },
        { .name = "delete-insert-get", THREE(pre_two, t1_insert_c, t2_get_b, post_delete_insert_get, 3) },
        { .name = "delete-insert-update", THREE(pre_two, t1_insert_c, t2_update_b, post_delete_insert_update, 2) },
        { .name = "delete-insert-delete", THREE(pre_two, t1_insert_c, t2_delete_b, post_delete_insert_delete, 2) },
        { .name = "delete-delete-insert", THREE(pre_two, t1_delete_b, t2_insert_c, post_delete_delete_insert, 2) },
        { .name = "delete-update-get", LONG(pre_two, t1_update_b, t2_get_b, post_delete_update_get, 4) },
        { .name = "delete-update-update", LONG(pre_two, t1_update_b, t2_update_b, post_delete_update_update, 3) },
        { .name = "delete-update-scan", LONG(pre_two, t1_update_b, t2_scan, post_delete_scan, 3) },
        { .name = "delete-insert-scan", LONG(pre_two, t1_insert_c, t2_scan, post_delete_scan, 3) },
        { .name = "reuse-get", .pre = pre_reuse, .actors = { t0_reuse_node, t1_get_b }, .post = post_reuse_node,
          .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "delete-insert-late", TWO(pre_two_late, t1_insert_c, post_insert_c, 2), .late = 2 },
        { .name = "delete-get-late", TWO(pre_two_late, t1_get_b, post_get_b, 2), .late = 2, .weak = true },
};
/* clang-format on */
