/*
 * Changes of a map while epoch 1, which has the values or the index, is revoked. The last actor is control: it makes
 * the tags of the epoch even, gives back the slots to which no record refers, and uses a slab that became free for an
 * object of its own, the victim, into which nobody else writes.
 */
#include "shm/maintain/freeze.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/take.h"
#include "tests/model/map-world.h"

#define REVOKED 1

/* Figures that cases keep in the private part. */
#define expected_version world.notes[0]
#define victim map_victim
#define n_marked world.objects[WORLD_N_PRE].n_begun /* tags that control made even */
#define n_pending world.objects[WORLD_N_PRE].n_won /* threads that were inside an operation when it began */

static unsigned control; /* the number of control as an actor */

static bool is_revoked(uint32_t slab) {
        SlabWord w = shm_slab_word(&world_arena, slab);
        SlabState state = slab_word_state(w);

        return state >= SLAB_PARTIAL && state <= SLAB_DRAINING && slab_word_epoch(w) == REVOKED;
}

static uint8_t count_inside(void) {
        uint8_t n = 0;

        for (unsigned i = 0; i < control; i++)
                n += shm_load_acq(&world_actor(i)->record->seq) & 1;
        return n;
}

/* One round of closing: threads that are pending, and slots in hand, are for another one. */
static void revoke(ShmActor *actor) {
        map_begin_revoke();
        n_pending = count_inside();
        map_go_on_revoking(actor);
}

static void t_revoke(void) {
        uint64_t handle;

        revoke(world_actor(control));
        n_marked = (uint8_t) map_control.revoke.objects;
        if (shm_object_alloc(world_actor(control), WORLD_SIZE_1, 0, NULL, &handle, NULL) == 0) {
                map_wipe(handle);
                victim = handle;
        }
        world.results[control] = map_get_by(&map_tries[control], 0);
}

/* For pre(), as its last: `actor` is control. */
static void ready(uint32_t n_slabs, unsigned actor) {
        control = actor;
        world_set_control(actor);
        model_own(actor, &map_control, sizeof(map_control));
        map_ready(n_slabs);
}

/*
 * Conditions
 */
static uint64_t n_live(uint32_t class) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                for (uint32_t slot = 0; slot < 4; slot++)
                        n += slab_word_class(shm_slab_word(&world_arena, slab)) == class &&
                             (world_arena.tags[slab].tag[slot] & 1);
        return n;
}

/* The victim is as it was; nothing of the epoch is left, once all have ended, or were repaired. */
static void check(unsigned dead) {
        ShmRepairCounts counts;

        map_check_wiped(victim);
        if (dead >> control & 1)
                shm_repair_control(&world_actors[0], &map_control.reach, &counts);
        map_repair(dead);
        revoke(&world_actors[0]);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                if (is_revoked(slab))
                        model_fail("slab %u is not given back", slab);
        (void) map_check_slots();
}

/* Fails because of an error that must not be, or a value that does not fit it. */
static void fail_a(char a) {
        model_fail("result %d, value %d, control saw %d", world.results[0], a, world.results[control]);
}

static bool is_one_of(int r, int first, int second, int third) {
        return r == first || r == second || r == third;
}

/*
 * Values are revoked: key a, of one put by actor 0 into epoch 1
 */
static void t0_put_1(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 1);
}

static void t0_insert_1(void) {
        map_put(0, 0, 'x', SHM_MAP_INSERT, 1);
}

static void t0_update_1(void) {
        map_put(0, 0, 'x', SHM_MAP_UPDATE, 1);
}

static void t0_replace_1(void) {
        map_put(0, 0, 'x', SHM_MAP_REPLACE, 1);
}

static void pre_none(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        ready(3, 1);
}

static void remember_version(void) {
        ShmMapKey key = map_key(0);
        char value[8];
        ShmMapView view;

        if (shm_map_get(&map_tries[MODEL_ACTORS_MAX], &key, value, sizeof(value), &view) != 1)
                model_fail("no version");
        expected_version = view.handle;
}

static void pre_old(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(0, 'o', 0);
        remember_version();
        ready(3, 1);
}

static void post_none(unsigned dead) {
        check(dead);
        map_check(2, n_live(2));
        if (map_get(0) != 0 || (!(dead & 1) && !is_one_of(world.results[0], 0, -ESHUTDOWN, -ESTALE)))
                fail_a(map_get(0));
}

/*
 * The old value, of epoch 0, stays where the put failed; and where somebody saw it after the leaf had
 * been revoked, so that the put came too late.
 */
static void check_old(unsigned dead, unsigned n_keys) {
        bool late = n_marked > 0 && world.results[control] == 'o';
        char a;

        check(dead);
        map_check(n_keys, n_live(2));
        a = map_get(0);
        if (a != 0 && a != 'o')
                fail_a(a);
        if (!(dead & 1) && !is_one_of(world.results[0], 0, -ESHUTDOWN, -ESTALE))
                fail_a(a);
        if (!(dead & 1) && a == 0 && (world.results[0] != 0 || late))
                fail_a(a);
}

static void post_old(unsigned dead) {
        check_old(dead, 2);
}

/* A bucket: c, and a behind it, both of epoch 0. */
static void pre_old_bucket(void) {
        map_init(7, 0, MAP_HASH, MAP_HASH, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(0, 'o', 0);
        ready(7, 1);
}

static void post_old_bucket(unsigned dead) {
        check_old(dead, 3);
        if (map_get(2) != 'c')
                model_fail("c is %d", map_get(2));
}

/*
 * Values are revoked: key a, of epoch 1, is changed
 */
static void pre_revoked(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(0, 'o', 1);
        remember_version();
        ready(3, 1);
}

static void t0_put_0(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t0_update_0(void) {
        map_put(0, 0, 'x', SHM_MAP_UPDATE, 0);
}

static void t0_replace_0(void) {
        map_put(0, 0, 'x', SHM_MAP_REPLACE, 0);
}

static void t0_delete(void) {
        map_delete(0, 0);
}

/* `error`: the result of a change that came too late. */
static void check_revoked(unsigned dead, int error, char new) {
        char a;

        check(dead);
        map_check(2, n_live(2));
        a = map_get(0);
        if (a != 0 && a != new)
                fail_a(a);
        if (!(dead & 1) && !(world.results[0] == 0 && a == new) && !(world.results[0] == error && a == 0))
                fail_a(a);
}

static void post_revoked_put(unsigned dead) {
        check_revoked(dead, 0, 'x');
        if (!(dead & 1) && map_get(0) != 'x')
                fail_a(map_get(0));
}

static void post_revoked_update(unsigned dead) {
        check_revoked(dead, -ENOENT, 'x');
}

static void post_revoked_replace(unsigned dead) {
        check_revoked(dead, -EAGAIN, 'x');
}

static void post_revoked_delete(unsigned dead) {
        check_revoked(dead, -ENOENT, 0);
}

/* Key a is a counter, at 'o', which is taken: its word is written after its tag was made even. */
static void entry_counter(uint32_t epoch) {
        const ShmMapAdd add = { .delta = 'o', .epoch = epoch };
        ShmMapKey key = map_key(0);
        int64_t sum;

        map_must(shm_map_add(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], &key, &add, &sum));
}

static void pre_revoked_counter(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        entry_counter(1);
        ready(3, 1);
}

static void t0_take(void) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        int64_t sum = 0;
        ssize_t n;

        n = shm_map_take(world_actor(0), &map_tries[0], &key, &sum, sizeof(sum), &view);
        world.results[0] = n < 0 ? (int) n : sum == 'o' ? 0 : -EBADMSG;
}

/* An add: the next owner of the slot leaves the counter's word as it was, too. */
static void pre_added(void) {
        pre_revoked_counter();
        map_n_left = MAP_N_LEFT_CELL;
}

static void t0_add(void) {
        const ShmMapAdd add = { .delta = 1 };
        ShmMapKey key = map_key(0);
        int64_t sum = 0;
        int r = shm_map_add(world_actor(0), &map_tries[0], &key, &add, &sum);

        world.results[0] = r ?: (int) sum;
}

/* It was done before, or to a new counter. */
static void post_add(unsigned dead) {
        ShmMapKey key = map_key(0);
        int64_t sum = 0;

        check(dead);
        (void) shm_map_get(&map_tries[MODEL_ACTORS_MAX], &key, &sum, sizeof(sum), NULL);
        if (!(dead & 1) && !(world.results[0] == 'o' + 1 && sum == 0) && !(world.results[0] == 1 && sum == 1))
                model_fail("sum %d, it is %ld", world.results[0], (long) sum);
}

/* The word of a is split for b: a is revoked, or b, or nobody but the entry that is met there. */
static void t0_put_b_0(void) {
        map_put(0, 1, 'x', SHM_MAP_PUT, 0);
}

static void t0_put_b_1(void) {
        map_put(0, 1, 'x', SHM_MAP_PUT, 1);
}

static void post_split_a(unsigned dead) {
        check(dead);
        map_check(2, n_live(2));
        if (map_get(0) != 0 || (!(dead & 1) && (world.results[0] != 0 || map_get(1) != 'x')))
                fail_a(map_get(1));
}

static void post_split_b(unsigned dead) {
        check(dead);
        map_check(2, n_live(2));
        if (map_get(0) != 'o' || map_get(1) != 0 ||
            (!(dead & 1) && !is_one_of(world.results[0], 0, -ESHUTDOWN, -ESTALE)))
                fail_a(map_get(0));
}

/* a of epoch 1 and b of epoch 0. */
static void pre_two(void) {
        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_entry(0, 'o', 1);
        map_entry(1, 'b', 0);
        ready(3, 1);
}

static uint64_t no_time(const ShmArena *arena) {
        (void) arena;
        return 0;
}

/* Entries have ends by a clock that stands still. */
static void stop_clock(void) {
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = no_time;
}

static void pre_two_touched(void) {
        pre_two();
        stop_clock();
}

static uint64_t some_time(const ShmArena *arena) {
        (void) arena;
        return SHM_NS_PER_MS;
}

/* The entry is over, which its delete settles. */
static void pre_over(void) {
        const ShmMapPut p = { .value = "o", .value_size = 1, .epoch = 1, .ttl_ms = 1 };
        ShmMapKey key;

        map_init(3, 0, MAP_HASH, MAP_HASH_FAR, 0);
        stop_clock();
        key = map_key(0);
        map_must(shm_map_put(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], &key, &p, NULL));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = some_time;
        ready(3, 1);
}

static void t0_expire_1(void) {
        ShmTrieScan scan = {};

        world.results[0] = (int) shm_map_expire(world_actor(0), &map_tries[0], 1, &scan, 10);
}

static void post_expire(unsigned dead) {
        check(dead);
        map_check(2, n_live(2));
        if (map_get(0) != 0 || map_get(1) != 'b' || (!(dead & 1) && !is_one_of(world.results[0], 0, 1, 1)))
                fail_a(map_get(1));
}

static void t0_get(void) {
        world.results[0] = map_get_by(&map_tries[0], 0);
}

/* An end by a clock that stands still, and the value: 'o', or the error. */
static void t0_get_touch(void) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        char value = 0;
        ssize_t n;

        n = shm_map_get_touch(world_actor(0), &map_tries[0], &key, 1, &value, 1, &view);
        world.results[0] = n == -ENOENT ? 0 : n < 0 ? (int) n : value;
}

/* All that a scan meets: a has the value o, b has b. Where it saw a, 'o', else 0; or the error. */
static void t0_scan(void) {
        char buffer[SHM_CLASS_SIZE_MAX];
        ShmTrieScan scan = {};
        ShmMapView view;
        unsigned n[2] = {};
        int r;

        while ((r = shm_map_next(&map_tries[0], &scan, buffer, sizeof(buffer), &view)) == 1) {
                unsigned k = (unsigned) buffer[0] - 'a';

                if (k > 1 || buffer[1] != (k == 0 ? 'o' : 'b') || ++n[k] > 1)
                        model_fail("met %d %d", buffer[0], buffer[1]);
        }
        if (r == 0 && n[1] != 1)
                model_fail("b was met %u times", n[1]);
        world.results[0] = r < 0 ? r : n[0] ? 'o' : 0;
}

static void post_read(unsigned dead) {
        check(dead);
        map_check(2, n_live(2));
        if (!(dead & 1) && !is_one_of(world.results[0], 'o', 0, 0))
                fail_a(map_get(0));
}

/* A bucket: c of epoch 0, a of epoch 1 behind it. */
static void pre_bucket(void) {
        map_init(7, 0, MAP_HASH, MAP_HASH, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(0, 'o', 1);
        ready(7, 2);
}

static void t1_delete(void) {
        map_delete(1, 0);
}

static void t1_insert_0(void) {
        map_put(1, 0, 'y', SHM_MAP_INSERT, 0);
}

static void post_bucket(unsigned dead) {
        check(dead);
        map_check(3, n_live(2));
        if (map_get(2) != 'c' || (!(dead & 1) && world.results[0] != 0))
                fail_a(map_get(0));
}

/*
 * The index is revoked: it is in epoch 1, values are in epoch 0, where there is an object more
 */
static unsigned n_beside; /* or so many of them */

static void init_index(uint32_t n_slabs, uint64_t hash_b) {
        map_init(n_slabs, 1, MAP_HASH, hash_b, MAP_HASH);
        world_object(WORLD_SIZE_4, 0);
        n_beside = 1;
}

static void pre_index_none(void) {
        init_index(3, MAP_HASH_FAR);
        ready(3, 1);
}

static void pre_index_old(void) {
        init_index(3, MAP_HASH_FAR);
        map_entry(0, 'o', 0);
        remember_version();
        ready(3, 1);
}

static void pre_index_counter(void) {
        init_index(3, MAP_HASH_FAR);
        entry_counter(0);
        ready(3, 1);
}

/* A node below the root. */
static void pre_index_two(void) {
        init_index(3, MAP_HASH_FAR);
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 0);
        remember_version();
        ready(3, 1);
}

static void pre_index_touched(void) {
        pre_index_two();
        stop_clock();
}

/* A node below the root, and a word of it that is 0 for a. */
static void pre_index_node(void) {
        init_index(3, MAP_HASH_FAR);
        map_hashes[2] = 2 * MAP_HASH_FAR;
        map_entry(1, 'b', 0);
        map_entry(2, 'c', 0);
        ready(3, 1);
}

static void pre_index_bucket(void) {
        init_index(7, MAP_HASH);
        map_entry(2, 'c', 0);
        map_entry(1, 'b', 0);
        ready(7, 1);
}

/* So many values live in the end, besides that one object; with actor 0 dead, from n_min on. */
static void check_index(unsigned dead, uint64_t n_values, uint64_t n_min, uint64_t n_max) {
        bool is_over = !(dead >> control & 1) && n_pending == 0;
        uint64_t n;

        check(dead);
        if (map_get_by(&map_tries[MODEL_ACTORS_MAX], 0) != -EIDRM)
                model_fail("the map is there");
        n = n_live(0) - n_beside;
        if (dead & 1 ? n < n_min || n > n_max : n != n_values)
                model_fail("result %d, %lu values", world.results[0], (unsigned long) n);
        if (is_over && world.results[control] != -EIDRM)
                model_fail("control saw %d", world.results[control]);
        if (!(dead & 1) && !is_one_of(world.results[0], 0, -EIDRM, -ESHUTDOWN))
                model_fail("result %d", world.results[0]);
}

static void post_index_add(unsigned dead) {
        check_index(dead, world.results[0] == 0, 0, 1);
}

static void post_index_over(unsigned dead) {
        check_index(dead, 1, 0, 1);
}

static void post_index_delete(unsigned dead) {
        check_index(dead, world.results[0] != 0, 0, 1);
}

static void post_index_add_to_one(unsigned dead) {
        check_index(dead, 1 + (world.results[0] == 0), 1, 2);
}

static void post_index_add_to_two(unsigned dead) {
        check_index(dead, 2 + (world.results[0] == 0), 2, 3);
}

static void t0_expire_0(void) {
        ShmTrieScan scan = {};
        ssize_t n = shm_map_expire(world_actor(0), &map_tries[0], 0, &scan, 10);

        world.results[0] = n < 0 ? (int) n : 0;
}

static void post_index_expire(unsigned dead) {
        if (world.results[0] == 0)
                check_index(dead, 0, 0, 2);
        else
                check_index(dead | 1, 0, 0, 2);
        if (!(dead & 1) && !is_one_of(world.results[0], 0, -EIDRM, -EIDRM))
                fail_a(0);
}

static void post_index_read(unsigned dead) {
        if (world.results[0] == 'o')
                world.results[0] = 0;
        else if (!(dead & 1) && world.results[0] != -EIDRM)
                model_fail("read %d", world.results[0]);
        check_index(dead, 2, 2, 2);
}

static void t0_insert_0(void) {
        map_put(0, 0, 'x', SHM_MAP_INSERT, 0);
}

/* All plain stores of actor 0 are seen late. */
static void pre_index_none_late(void) {
        pre_index_none();
        world_set_late(0);
}

static void pre_index_old_late(void) {
        pre_index_old();
        world_set_late(0);
}

static void pre_index_node_late(void) {
        pre_index_node();
        world_set_late(0);
}

/* Actor 0 stops in front of bytes that it copies, too. */
static void pre_none_late(void) {
        pre_none();
        model_copies = true;
        world_set_late(0);
}

static void pre_old_late(void) {
        pre_old();
        world_set_late(0);
}

/* Two actors, and a third one before control. */
#define TWO(pre_, t0, post_, n)                                                                              \
        .pre = pre_, .actors = { t0, t_revoke }, .post = post_, .preemptions = n, .full_preemptions = n + 1
#define THREE(pre_, t0, t1, post_, n)                                                                        \
        .pre = pre_, .actors = { t0, t1, t_revoke }, .post = post_, .preemptions = n,                        \
        .full_preemptions = n + 1
#define MARK(pre_, t1, t2, post_, n)                                                                         \
        .pre = pre_, .actors = { t0_delete, t1, t2 }, .post = post_, .preemptions = n, .full_preemptions = n

/*
 * The index, in epoch 1, is revoked while a node of it is removed, and renewed for key c, whose leaf is put as if its
 * word had been looked at before.
 */
static void pre_index_renewed(void) {
        map_shape = MAP_SHRINKS;
        map_init(4, 1, MAP_HASH, UINT64_C(1) << 61, UINT64_C(2) << 61);
        map_shape = MAP_FIXED;
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 0);
        ready(4, 2);
}

/*
 * Beside all of a revocation: nobody writes into an object that has the root's slot then, or the node's. With one in
 * each slab, the node's note keeps no other slot.
 */
static void init_index_shrink(unsigned n_slabs, unsigned n_beside_root) {
        map_shape = MAP_SHRINKS;
        map_init(n_slabs, 1, MAP_HASH, UINT64_C(1) << 61, UINT64_C(2) << 61);
        map_shape = MAP_FIXED;
        for (unsigned i = 0; i < n_beside_root; i++)
                world_object(WORLD_SIZE_4, 1);
        world_object(WORLD_SIZE_4, 0);
        n_beside = 1;
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 0);
}

static void pre_index_shrink(void) {
        init_index_shrink(5, 3);
        ready(5, 1);
}

/* b needs a node, for which there is a slot if the put spares free slabs. */
static void pre_index_tight(void) {
        unsigned n_beside_index;

        map_shape = MAP_SHRINKS;
        map_init(4, 1, MAP_HASH, UINT64_C(1) << 61, 0);
        map_shape = MAP_FIXED;
        map_entry(0, 'o', 0);
        n_beside = map_make_tight(&n_beside_index);
        ready(4, 1);
}

static void post_index_tight(unsigned dead) {
        if (world.results[0] == -ENOMEM)
                world.results[0] = -EIDRM;
        post_index_add_to_one(dead);
}

static void pre_index_shrink_link(void) {
        init_index_shrink(4, 0);
        ready(4, 2);
}

static void pre_index_shrink_late(void) {
        pre_index_shrink();
        world_set_late(0);
}

static void post_index_shrink(unsigned dead) {
        check_index(dead, 1 + (world.results[0] != 0), 1, 2);
}

static void t1_link_c(void) {
        const ShmPending pending = { .root = map_root, .hash = UINT64_C(2) << 61 };
        ShmMapLeaf head = { .hash = pending.hash, .key_size = 1, .value_size = 1 };
        ShmTrieCursor c;
        uint64_t leaf;
        void *object;

        if (shm_object_alloc(world_actor(1), sizeof(head) + 2, 0, &pending, &leaf, &object) != 0)
                return;
        head.expires = shm_leaf_seal(leaf);
        memcpy(object, &head, sizeof(head));
        memcpy((char *) object + sizeof(head), "cc", 2);
        if (shm_trie_seek(&map_tries[1], head.hash, &c) == 0 && c.depth == 1 && c.value == 0)
                world.results[1] = shm_trie_exchange(world_actor(1), &map_tries[1], &c, leaf);
        if (world.results[1] != 0) {
                (void) shm_object_free(world_actor(1), leaf);
                (void) shm_object_publish(world_actor(1), leaf);
        }
}

static void t_mark(void) {
        map_must(shm_epoch_revoke(&world_arena, shm_epoch_number(REVOKED, 1), false));
        map_control.revoke = (ShmRevoke){};
        (void) shm_epoch_revoking(&world_arena, REVOKED, &map_control.revoke.eras);
        while (!shm_revoke_mark(world_actor(control), &map_control.revoke, 1))
                ;
}

/* The node is renewed: c is put at the same time as the delete, and as the whole revocation. */
static void post_index_shrink_link(unsigned dead) {
        check_index(dead, 1 + (world.results[0] != 0) + (world.results[1] == 0), 1, 3);
}

static void post_index_renewed(unsigned dead) {
        (void) dead;
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                for (uint32_t slot = 0; slot < 4 && is_revoked(slab); slot++)
                        if (world_arena.tags[slab].tag[slot] & 1)
                                model_fail("slot %u:%u of the era that was revoked is live", slab, slot);
}

/* Values of epoch 1 are revoked while b gets one and the node of its word is removed. */
static void pre_node_old(void) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, MAP_HASH, UINT64_C(1) << 61, 0);
        map_shape = MAP_FIXED;
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 0);
        ready(4, 2);
}

static void t1_put_b_1(void) {
        map_put(1, 1, 'x', SHM_MAP_PUT, 1);
}

/* It reads b at last: then the leaf is stale, and so, if b has its value before still, it stays. */
static void t_mark_get_b(void) {
        t_mark();
        n_marked = (uint8_t) map_control.revoke.objects;
        world_fence(); /* after tags, before guards; nobody learns of the marks before that */
        world.results[control] = map_get_by(&map_tries[control], 1);
}

static void post_node_old(unsigned dead) {
        char b;

        check(dead);
        b = map_get(1);
        if (b != 0 && b != 'b')
                model_fail("value %d, result %d", b, world.results[1]);
        if (b == 0 && n_marked > 0 && world.results[control] == 'b')
                model_fail("value before was seen, result %d", world.results[1]);
        if (map_get(0) != 0 || world.results[0] != 0)
                fail_a(map_get(0));
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "put", TWO(pre_none, t0_put_1, post_none, 3), .deaths = 1 },
        { .name = "insert", TWO(pre_none, t0_insert_1, post_none, 2), .deaths = 1 },
        { .name = "put-over", TWO(pre_old, t0_put_1, post_old, 3), .deaths = 1 },
        { .name = "put-over-in-bucket", TWO(pre_old_bucket, t0_put_1, post_old_bucket, 2), .deaths = 1 },
        { .name = "update", TWO(pre_old, t0_update_1, post_old, 2), .deaths = 1 },
        { .name = "replace", TWO(pre_old, t0_replace_1, post_old, 2), .deaths = 1 },
        { .name = "split", TWO(pre_old, t0_put_b_1, post_split_b, 3), .deaths = 1 },
        { .name = "old-put", TWO(pre_revoked, t0_put_0, post_revoked_put, 3), .deaths = 1 },
        { .name = "old-update", TWO(pre_revoked, t0_update_0, post_revoked_update, 2), .deaths = 1 },
        { .name = "old-replace", TWO(pre_revoked, t0_replace_0, post_revoked_replace, 2), .deaths = 1 },
        { .name = "old-delete", TWO(pre_revoked, t0_delete, post_revoked_delete, 3), .deaths = 1 },
        { .name = "old-take", TWO(pre_revoked_counter, t0_take, post_revoked_delete, 3), .deaths = 1 },
        { .name = "old-split", TWO(pre_revoked, t0_put_b_0, post_split_a, 3), .deaths = 1 },
        { .name = "expire", TWO(pre_two, t0_expire_1, post_expire, 3), .deaths = 1 },
        { .name = "get", TWO(pre_two, t0_get, post_read, 3), .deaths = 1, .weak = true },
        { .name = "get-touch", TWO(pre_two_touched, t0_get_touch, post_read, 3), .deaths = 1, .weak = true },
        { .name = "add", TWO(pre_added, t0_add, post_add, 3), .deaths = 1, .weak = true },
        { .name = "settle", TWO(pre_over, t0_delete, post_revoked_delete, 3), .deaths = 1, .weak = true },
        { .name = "scan", TWO(pre_two, t0_scan, post_read, 3), .deaths = 1, .weak = true },
        { .name = "bucket-delete", THREE(pre_bucket, t0_put_0, t1_delete, post_bucket, 2) },
        { .name = "bucket-insert", THREE(pre_bucket, t0_put_0, t1_insert_0, post_bucket, 2) },
        { .name = "index-put", TWO(pre_index_none, t0_put_0, post_index_add, 3), .deaths = 1 },
        { .name = "index-insert", TWO(pre_index_none, t0_insert_0, post_index_add, 2), .deaths = 1 },
        { .name = "index-put-node", TWO(pre_index_node, t0_put_0, post_index_add_to_two, 3), .deaths = 1 },
        { .name = "index-put-over", TWO(pre_index_old, t0_put_0, post_index_over, 3), .deaths = 1 },
        { .name = "index-update", TWO(pre_index_old, t0_update_0, post_index_over, 2), .deaths = 1 },
        { .name = "index-replace", TWO(pre_index_old, t0_replace_0, post_index_over, 2), .deaths = 1 },
        { .name = "index-delete", TWO(pre_index_old, t0_delete, post_index_delete, 3), .deaths = 1 },
        { .name = "index-take", TWO(pre_index_counter, t0_take, post_index_delete, 3), .deaths = 1 },
        { .name = "index-split", TWO(pre_index_old, t0_put_b_0, post_index_add_to_one, 3), .deaths = 1 },
        { .name = "index-bucket", TWO(pre_index_bucket, t0_put_0, post_index_add_to_two, 2), .deaths = 1 },
        { .name = "index-expire", TWO(pre_index_two, t0_expire_0, post_index_expire, 3), .deaths = 1 },
        { .name = "index-get", TWO(pre_index_two, t0_get, post_index_read, 3), .deaths = 1, .weak = true },
        { .name = "index-get-touch", TWO(pre_index_touched, t0_get_touch, post_index_read, 3), .deaths = 1,
          .weak = true },
        { .name = "index-scan", TWO(pre_index_two, t0_scan, post_index_read, 3), .deaths = 1, .weak = true },
        { .name = "index-tight", TWO(pre_index_tight, t0_put_b_0, post_index_tight, 3), .deaths = 1 },
        { .name = "index-renewed", MARK(pre_index_renewed, t1_link_c, t_mark, post_index_renewed, 2) },
        { .name = "index-shrink", TWO(pre_index_shrink, t0_delete, post_index_shrink, 3), .deaths = 1 },
        { .name = "index-shrink-late", TWO(pre_index_shrink_late, t0_delete, post_index_shrink, 2), .late = 2 },
        { .name = "index-shrink-link", MARK(pre_index_shrink_link, t1_link_c, t_revoke, post_index_shrink_link, 2) },
        { .name = "delete-put-over", MARK(pre_node_old, t1_put_b_1, t_mark_get_b, post_node_old, 3) },
        { .name = "index-put-late", TWO(pre_index_none_late, t0_put_0, post_index_add, 2), .late = 2, .weak = true },
        { .name = "index-split-late", TWO(pre_index_old_late, t0_put_b_0, post_index_add_to_one, 2), .late = 2 },
        { .name = "index-node-late", TWO(pre_index_node_late, t0_put_0, post_index_add_to_two, 2), .late = 2,
          .weak = true },
        { .name = "put-late", TWO(pre_none_late, t0_put_1, post_none, 2), .late = 2 },
        { .name = "put-over-late", TWO(pre_old_late, t0_put_1, post_old, 2), .late = 2 },
};
/* clang-format on */
