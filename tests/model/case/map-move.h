/*
 * Nodes of the index are moved to another slab during changes and reads, with deaths. The path of a and b forks in one
 * node, which is in the second slab, and the first slab has room. Each call finds the entries that nobody deletes; no
 * needless node is left, and none is lost.
 */
#include "shm/arena/root.h"
#include "shm/map/state/map-remove.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-move.h"
#include "tests/model/map-world.h"

#define HASH_A MAP_HASH
#define HASH_B (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)
#define HASH_B_TOO (HASH_B | UINT64_C(1) << 58) /* its path forks from that of b one level below */

#define N_OTHERS 3 /* objects that fill the first slab at first */

static unsigned n_others; /* objects of no map */
static uint64_t leaf_of_c;

/*
 * One node of a and b, or with `deep` another one below it, of b and c. The node of a is in another slab than the
 * root, and each of these two slabs has a free slot, or more.
 */
static void init(uint32_t index_epoch, bool deep) {
        uint64_t others[N_OTHERS], beside = 0;

        map_shape = MAP_SHRINKS;
        map_init(4, index_epoch, HASH_A, HASH_B, deep ? HASH_B_TOO : HASH_C);
        map_shape = MAP_FIXED;
        map_victim = 0;
        for (unsigned i = 0; i < N_OTHERS; i++)
                map_must(shm_object_alloc(&world_actors[0], WORLD_SIZE_4, index_epoch, NULL, &others[i],
                                          NULL));
        map_entry(0, 'a', 0);
        map_entry(1, 'b', 0);
        if (deep) {
                map_must(shm_object_alloc(&world_actors[0], WORLD_SIZE_4, 0, NULL, &beside, NULL));
                map_entry(2, 'c', 0);
                map_must(shm_object_free(&world_actors[0], beside));
        }
        for (n_others = N_OTHERS; n_others > 1; n_others--)
                map_must(shm_object_free(&world_actors[0], others[n_others - 1]));
}

static void pre_two(void) {
        init(0, false);
        map_ready(4);
}

static void pre_deep(void) {
        ShmTrieCursor c;

        init(0, true);
        map_must(shm_trie_seek(&map_tries[0], HASH_B_TOO, &c));
        leaf_of_c = c.value;
        map_ready(4);
}

/* The first slab has room for the node alone. */
static void pre_reuse(void) {
        uint64_t handle;

        init(0, false);
        map_must(shm_object_alloc(&world_actors[0], WORLD_SIZE_4, 0, NULL, &handle, NULL));
        n_others++;
        map_ready(4);
}

static void pre_named(void) {
        init(0, false);
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                shm_map_attach(&map_tries[i]);
        map_ready(4);
}

/* The root's slab is full, and may be given back while the other node stays in the next one. */
static void pre_revoke(void) {
        uint64_t others[N_OTHERS + 4];

        map_shape = MAP_SHRINKS;
        map_init(4, 1, HASH_A, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_victim = 0;
        for (unsigned i = 0; i < N_OTHERS + 4; i++)
                map_must(shm_object_alloc(&world_actors[0], WORLD_SIZE_4, 1, NULL, &others[i], NULL));
        map_entry(0, 'a', 0);
        map_entry(1, 'b', 0);
        for (unsigned i = 0; i < 2; i++)
                map_must(shm_object_free(&world_actors[0], others[N_OTHERS + i]));
        world_set_control(1);
        model_own(1, &map_control, sizeof(map_control));
        map_ready(4);
}

static void move(unsigned actor, unsigned k) {
        ShmTrieCursor c;

        if (shm_trie_seek(&map_tries[actor], map_hashes[k], &c) == 0 && c.depth > 0)
                shm_trie_move(world_actor(actor), &map_tries[actor], &c);
        world.results[actor] = 0;
}

static void t0_move(void) {
        move(0, 0);
}

static void t0_move_low(void) {
        move(0, 1);
}

/* The word of the leaf that was deleted has a node by now. */
static void t0_move_above(void) {
        ShmTrieCursor c;

        if (shm_trie_seek(&map_tries[0], HASH_A, &c) != 0)
                model_fail("a has no word");
        c.hash = HASH_B;
        shm_trie_move(world_actor(0), &map_tries[0], &c);
}

static void t1_move_high(void) {
        move(1, 0);
}

static void t1_move(void) {
        move(1, 1);
}

/* After that its slot is another object's. */
static void t0_move_reuse(void) {
        uint64_t handle;

        move(0, 0);
        if (shm_object_alloc(world_actor(0), WORLD_SIZE_4, 0, NULL, &handle, NULL) == 0) {
                map_wipe_one(handle);
                map_victim = handle;
        }
}

static void t1_remove(void) {
        world.results[1] = shm_map_remove(world_actor(1), "map", 0);
        for (unsigned i = 0; i < 2; i++)
                while (!shm_map_drain_step(world_actor(1), i, 4))
                        ;
}

static void t1_revoke(void) {
        uint64_t handle;

        map_revoke(world_actor(1));
        if (shm_object_alloc(world_actor(1), WORLD_SIZE_1, 0, NULL, &handle, NULL) == 0) {
                map_wipe(handle);
                map_victim = handle;
        }
}

static void t1_delete_b(void) {
        map_delete(1, 1);
}

static void t2_delete_b(void) {
        map_delete(2, 1);
}

static void t1_insert_c(void) {
        map_put(1, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t2_insert_c(void) {
        map_put(2, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t2_update_a(void) {
        map_put(2, 0, 'x', SHM_MAP_UPDATE, 0);
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

static void t2_get_c(void) {
        world.results[2] = map_get_by(&map_tries[2], 2);
}

/* Repair asks so for a thread that died. */
static void t2_ask_for_c(void) {
        world.results[2] = shm_trie_contains(&world_arena, map_root, HASH_B_TOO, leaf_of_c);
}

/* How often b was met. */
static int scan(unsigned actor) {
        char buffer[SHM_CLASS_SIZE_MAX];
        ShmTrieScan at = {};
        ShmMapView view;
        int r, n = 0;

        while ((r = shm_map_next(&map_tries[actor], &at, buffer, sizeof(buffer), &view)) == 1)
                n += buffer[0] == 'b' || buffer[0] == 'y';
        return r < 0 ? r : n;
}

static void t1_scan(void) {
        world.results[1] = scan(1);
}

static void t2_scan(void) {
        world.results[2] = scan(2);
}

static void expect(unsigned dead, unsigned actor, unsigned k, char before, char after) {
        char value = map_get(k);

        if (value != after && !((dead >> actor & 1) && value == before))
                model_fail("key %u: %d, result %d", k, value, world.results[actor]);
        if (!(dead >> actor & 1) && world.results[actor] != 0)
                model_fail("actor %u: %d", actor, world.results[actor]);
}

static void stays(unsigned k, char value) {
        if (map_get(k) != value)
                model_fail("key %u: %d", k, map_get(k));
}

static void saw(unsigned dead, unsigned actor, int result) {
        if (!(dead >> actor & 1) && world.results[actor] != result)
                model_fail("actor %u saw %d", actor, world.results[actor]);
}

static void check(unsigned dead) {
        map_repair(dead);
        map_check(3, n_others);
        stays(0, 'a');
}

static uint32_t slab_of_node(unsigned k) {
        ShmTrieCursor c;

        if (shm_trie_seek(&map_tries[MODEL_ACTORS_MAX], map_hashes[k], &c) != 0 || c.depth == 0)
                model_fail("key %u has no node", k);
        return slot_id_slab(shm_handle_slot(c.node));
}

/* Alone, it moves. */
static void post_alone(unsigned dead) {
        check(dead);
        stays(1, 'b');
        if (dead == 0 && slab_of_node(0) != 0)
                model_fail("the node was not moved");
}

static void post_moves(unsigned dead) {
        check(dead);
        stays(1, 'b');
}

/* Nothing is left frozen: nobody may come for it. */
static void post_moves_deep(unsigned dead) {
        post_moves(dead);
        if (dead == 0 && trie_count(&map_tries[MODEL_ACTORS_MAX]).n_frozen != 0)
                model_fail("words are left frozen");
}

static void post_get_b(unsigned dead) {
        check(dead);
        stays(1, 'b');
        saw(dead, 1, 'b');
}

static void post_scan(unsigned dead) {
        check(dead);
        saw(dead, 1, 1);
}

static void post_delete_b(unsigned dead) {
        check(dead);
        expect(dead, 1, 1, 'b', 0);
}

static void post_update_b(unsigned dead) {
        check(dead);
        expect(dead, 1, 1, 'b', 'y');
}

static void post_insert_c(unsigned dead) {
        check(dead);
        stays(1, 'b');
        expect(dead, 1, 2, 0, 'c');
}

static void post_update_insert(unsigned dead) {
        check(dead);
        expect(dead, 1, 1, 'b', 'y');
        expect(dead, 2, 2, 0, 'c');
}

static void post_insert_update(unsigned dead) {
        check(dead);
        expect(dead, 1, 2, 0, 'c');
        expect(dead, 2, 1, 'b', 'y');
}

static void post_insert_delete(unsigned dead) {
        check(dead);
        expect(dead, 1, 2, 0, 'c');
        expect(dead, 2, 1, 'b', 0);
}

static void post_move_update(unsigned dead) {
        check(dead);
        expect(dead, 2, 1, 'b', 'y');
}

static void post_update_get(unsigned dead) {
        check(dead);
        if (world.results[2] != 'b' && world.results[2] != 'y')
                model_fail("get saw %d", world.results[2]);
}

static void post_insert_get(unsigned dead) {
        check(dead);
        stays(1, 'b');
        saw(dead, 2, 'b');
}

static void post_delete_update(unsigned dead) {
        map_repair(dead);
        map_check(3, n_others);
        expect(dead, 1, 1, 'b', 0);
        expect(dead, 2, 0, 'a', 'x');
}

/* The node of b and c goes, too. */
static void post_delete_get(unsigned dead) {
        check(dead);
        stays(2, 'c');
        expect(dead, 1, 1, 'b', 0);
        saw(dead, 2, 'c');
}

/* The leaf of c is linked all the time. */
static void post_delete_ask(unsigned dead) {
        check(dead);
        expect(dead, 1, 1, 'b', 0);
        saw(dead, 2, 1);
}

/* The victim is one object more. */
static void post_reuse(unsigned dead) {
        map_check_wiped_one(map_victim);
        n_others += map_victim != 0;
        check(dead);
        n_others -= map_victim != 0;
        stays(1, 'b');
        expect(dead, 1, 2, 0, 'c');
}

static void post_reuse_update(unsigned dead) {
        map_check_wiped_one(map_victim);
        n_others += map_victim != 0;
        check(dead);
        n_others -= map_victim != 0;
        expect(dead, 1, 1, 'b', 'y');
}

static void post_remove(unsigned dead) {
        uint64_t handle;

        map_repair(dead);
        if (shm_root_get(&world_arena, "map", &handle) == 0)
                map_must(shm_map_remove(&world_actors[0], "map", 0));
        for (uint32_t i = 0; i < 2; i++)
                while (!shm_map_drain_step(&world_actors[0], i, 100))
                        ;
        if (map_check_slots() != n_others)
                model_fail("objects are left");
}

static void post_revoke(unsigned dead) {
        ShmRepairCounts counts;
        uint64_t n;

        map_check_wiped(map_victim);
        if (dead & 2)
                shm_repair_control(&world_actors[0], &map_control.reach, &counts);
        map_repair(dead);
        map_revoke(&world_actors[0]);
        n = map_check_slots();
        /* An actor that died may have had the victim already. */
        if (n != 2 + (map_victim != 0) && !((dead & 2) && n == 3))
                model_fail("objects of the index are left");
}

static void post_scan_2(unsigned dead) {
        check(dead);
        saw(dead, 2, 1);
}

#define TWO(pre_, t1, post_, n)                                                                              \
        .pre = pre_, .actors = { t0_move, t1 }, .post = post_, .preemptions = n, .full_preemptions = n + 1
#define THREE(pre_, t1, t2, post_, n)                                                                        \
        .pre = pre_, .actors = { t0_move, t1, t2 }, .post = post_, .preemptions = n, .full_preemptions = n

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "alone", .pre = pre_two, .actors = { t0_move }, .post = post_alone, .deaths = 1 },
        { .name = "deep-alone", .pre = pre_deep, .actors = { t0_move_above }, .post = post_alone, .deaths = 1 },
        { .name = "move-move", TWO(pre_two, t1_move, post_moves, 3), .deaths = 1 },
        { .name = "move-get", TWO(pre_two, t1_get_b, post_get_b, 3), .deaths = 1, .weak = true },
        { .name = "move-scan", TWO(pre_two, t1_scan, post_scan, 3), .deaths = 1 },
        { .name = "move-delete", TWO(pre_two, t1_delete_b, post_delete_b, 3), .deaths = 1 },
        { .name = "move-update", TWO(pre_two, t1_update_b, post_update_b, 3), .deaths = 1,
          .weak = true, .weak_preemptions = 1 },
        { .name = "move-insert", TWO(pre_two, t1_insert_c, post_insert_c, 3), .deaths = 1 },
        { .name = "deep-move-delete", TWO(pre_deep, t1_delete_b, post_delete_b, 3), .deaths = 1 },
        { .name = "deep-move-get", TWO(pre_deep, t1_get_b, post_get_b, 3), .deaths = 1 },
        { .name = "deep-move-move", .pre = pre_deep, .actors = { t0_move_low, t1_move_high }, .post = post_moves_deep,
          .preemptions = 3, .full_preemptions = 4, .deaths = 1 },
        { .name = "move-update-get", THREE(pre_two, t1_update_b, t2_get_b, post_update_get, 3) },
        { .name = "move-update-insert", THREE(pre_two, t1_update_b, t2_insert_c, post_update_insert, 3) },
        { .name = "move-update-scan", THREE(pre_two, t1_update_b, t2_scan, post_scan_2, 2) },
        { .name = "move-insert-get", THREE(pre_two, t1_insert_c, t2_get_b, post_insert_get, 3) },
        { .name = "move-insert-update", THREE(pre_two, t1_insert_c, t2_update_b, post_insert_update, 3) },
        { .name = "move-insert-delete", THREE(pre_two, t1_insert_c, t2_delete_b, post_insert_delete, 2) },
        { .name = "reuse-insert", .pre = pre_reuse, .actors = { t0_move_reuse, t1_insert_c }, .post = post_reuse,
          .preemptions = 3, .full_preemptions = 4 },
        { .name = "reuse-update", .pre = pre_reuse, .actors = { t0_move_reuse, t1_update_b }, .post = post_reuse_update,
          .preemptions = 3, .full_preemptions = 4 },
        { .name = "remove", .pre = pre_named, .actors = { t0_move, t1_remove }, .post = post_remove, .deaths = 2,
          .preemptions = 3, .full_preemptions = 3 },
        { .name = "revoke", .pre = pre_revoke, .actors = { t0_move, t1_revoke }, .post = post_revoke, .deaths = 1,
          .preemptions = 3, .full_preemptions = 3 },
        { .name = "deep-move-delete-update", THREE(pre_deep, t1_delete_b, t2_update_a, post_delete_update, 2) },
        { .name = "deep-move-delete-get", THREE(pre_deep, t1_delete_b, t2_get_c, post_delete_get, 4) },
        { .name = "deep-move-delete-ask", THREE(pre_deep, t1_delete_b, t2_ask_for_c, post_delete_ask, 4) },
        { .name = "move-move-update", THREE(pre_two, t1_move, t2_update_b, post_move_update, 3) },
};
/* clang-format on */
