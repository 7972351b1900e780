/*
 * Puts that evict during other calls, with deaths. The map has a limit of two entries, and entry c was used. Or the
 * pool is full: then a put is planned anew, with fewer pieces. In the last cases an entry of another map goes. The put
 * succeeds, the other call returns a value that the map had, and entries and bytes are counted right.
 */
#include <stdio.h>

#include "shm/arena/root.h"
#include "shm/map/evict/evict-from.h"
#include "shm/map/evict/evict.h"
#include "shm/map/entry/expiry.h"
#include "tests/model/chain-world.h"

static ShmMapState *map_state(void) {
        return &world_arena.header->maps[map_tries[0].map - 1];
}

static uint32_t n_slabs, n_maps_before;

/* The limit is that of two entries. */
static void init(const Value *v, uint32_t n) {
        char name[SHM_ROOT_NAME_SIZE];

        chain_set(v);
        n_slabs = n;
        map_init(n_slabs, 0, MAP_HASH, MAP_HASH_FAR, MAP_HASH << 56);
        for (uint32_t i = 1; i <= n_maps_before; i++) {
                (void) snprintf(name, sizeof(name), "map.%u", i);
                map_must(shm_root_set(&world_arena, name, 0, i));
        }
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                shm_map_attach(&map_tries[i]);
        TRIE_SET_OPTION(&map_tries[0], limit_bytes,
                        2 * (v->n_objects * SLOT_COST(WORLD_SIZE_4) + INDEX_COST));
        TRIE_SET_OPTION(&map_tries[0], evict, SHM_MAP_EVICT_SIEVE);
}

static void visit(unsigned k) {
        ShmMapKey key = map_key(k);
        ShmTrieCursor c;
        ShmMapView view;

        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        shm_evict_visit(&map_tries[MODEL_ACTORS_MAX], view.handle);
}

/* Entries that are there before are not young: the sweep under way is a later one. */
static void ready(void) {
        map_state()->hands[0].place = UINT64_C(2) << 32;
        for (uint32_t slab = 0; slab < n_slabs; slab++)
                world_arena.lines[slab].young[0] = 0;
        map_ready(n_slabs);
}

static void put(unsigned actor, unsigned k, char c) {
        world.results[actor] = chain_put_as(world_actor(actor), &map_tries[actor], k, c, 0);
}

static char get(unsigned k) {
        return (char) chain_get_by(&map_tries[MODEL_ACTORS_MAX], k);
}

static void entry(unsigned k, char c) {
        map_must(chain_put_as(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], k, c, 0));
}

static void entries_a_c(const Value *v, uint32_t n) {
        init(v, n);
        entry(0, 'o');
        entry(2, 'c');
        visit(2);
}

static void pre_a_c(void) {
        entries_a_c(&in_one, 2);
        ready();
}

/* Either entry may go first. */
static void pre_unused(void) {
        init(&in_one, 2);
        entry(0, 'o');
        entry(2, 'c');
        ready();
}

/* An entry of another class, under a key of its own. */
static void entry_large(const ShmTrie *trie, uint64_t hash) {
        static const char bytes[WORLD_SIZE_2 - 100];
        const ShmMapPut p = { .mode = SHM_MAP_PUT, .value = bytes, .value_size = sizeof(bytes) };
        const ShmMapKey key = { "key", 3, hash };

        shm_chain_room = 0;
        map_must(shm_map_put(&world_actors[0], trie, &key, &p, NULL));
        shm_chain_room = CHAIN_ROOM;
}

/* Two hands move: the limit was lowered, and both old entries go, in the order of their classes. */
static void pre_two_hands(void) {
        init(&in_one, 4);
        entry(0, 'o');
        entry_large(&map_tries[MODEL_ACTORS_MAX], UINT64_C(1) << 58);
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, 2 * ENTRY_COST(WORLD_SIZE_4));
        ready();
        map_state()->hands[1].place = map_state()->hands[0].place;
}

/*
 * The hand comes to a slab that is in the map's set, has one free slot, and no entry of the map. The entries are in the
 * next slab.
 */
static void make_stale(bool has_bit) {
        uint32_t last = SHM_SLAB_SIZE / WORLD_SIZE_4 - 1, slab;
        uint64_t object;

        init(&in_one, 4);
        do {
                map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_4, 0, NULL, &object, NULL));
                chain_n_others++;
        } while (slot_id_slot(shm_handle_slot(object)) != last);
        entry(0, 'o');
        entry(2, 'c');
        map_must(shm_object_free(&world_actors[1], object));
        chain_n_others--;
        slab = slot_id_slab(shm_handle_slot(object));
        if (has_bit)
                world_arena.lines[slab].maps |= shm_set_line_bit(map_tries[0].map);
        shm_set_add(&world_arena, shm_set_of_map(&world_arena, map_tries[0].map), slab);
        ready();
}

static void pre_forget(void) {
        make_stale(true);
}

/* The same, of a map whose bit in the slab's line is others', too. */
static void pre_forget_late_map(void) {
        n_maps_before = SHM_SET_OWN_BITS;
        make_stale(true);
        n_maps_before = 0;
}

/* The same, and a thread stands still that is to set the bit of the slab's line. */
static void pre_forget_again(void) {
        make_stale(false);
}

static void pre_in_two(void) {
        entries_a_c(&in_two, 4);
        ready();
}

/* b has the slots that a had. */
static void pre_in_two_tight(void) {
        entries_a_c(&in_two, 4);
        (void) chain_fill_up(0);
        ready();
}

/* The hand has passed a: what comes next are the slots of those that are put now. */
static void pre_passed_a(void) {
        init(&in_one, 2);
        entry(0, 'o');
        ready();
        map_state()->hands[0].place |= 2 << 1;
}

static uint64_t no_time(const ShmArena *arena) {
        (void) arena;
        return 0;
}

static void pre_touched(void) {
        pre_a_c();
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = no_time;
}

/* No limit; there is room for so many objects of class 0, and so many heads of values in fewer pieces. */
static void make_full(unsigned n_slots, unsigned n_heads) {
        uint64_t heads[2];

        TRIE_SET_OPTION(&map_tries[0], limit_bytes, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = no_time;
        for (unsigned i = 0; i < 2; i++)
                map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_2, 0, NULL, &heads[i], NULL));
        (void) chain_fill_up(n_slots);
        chain_n_others += 2 - n_heads;
        for (unsigned i = 0; i < n_heads; i++)
                map_must(shm_object_free(&world_actors[1], heads[i]));
        ready();
}

static void pre_short(void) {
        entries_a_c(&in_three_or_two, 5);
        make_full(2, 1);
}

static void never_evict(void) {
        TRIE_SET_OPTION(&map_tries[0], evict, SHM_MAP_EVICT_NEVER);
}

static void pre_short_never(void) {
        pre_short();
        never_evict();
}

static void pre_short_in_blocks(void) {
        entries_a_c(&in_blocks_or_head, 7);
        make_full(3, 1);
}

/* The pool was full, and nothing is evicted since then. */
static void pre_short_last(void) {
        init(&in_three_or_two, 4);
        entry(0, 'o');
        make_full(2, 1);
        map_state()->full_ms = 1;
        never_evict();
}

/*
 * One slab is empty, and one slot for a head in fewer pieces is free in a slab of other objects. Such a head takes the
 * empty slab, which is still in the set of slabs with slots for it, before that slot; then there is none for chunks.
 */
static void pre_short_tight(void) {
        uint64_t heads[4];

        init(&in_blocks_or_head, 4);
        entry(0, 'o');
        for (unsigned i = 0; i < 4; i++)
                map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_2, 0, NULL, &heads[i], NULL));
        (void) chain_fill_up(0);
        for (unsigned i = 0; i < 3; i++)
                map_must(shm_object_free(&world_actors[1], heads[i]));
        chain_n_others++;
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, 0);
        never_evict();
        ready();
}

/* There is no room for either form. */
static void pre_short_full(void) {
        entries_a_c(&in_three_or_two, 5);
        make_full(0, 1);
}

/* The same, and a has fewer pieces. */
static void pre_short_evicted(void) {
        init(&in_three_or_two, 5);
        entry(2, 'c');
        visit(2);
        make_full(2, 1);
        entry(0, 'o');
        map_state()->full_ms = 1;
        ready();
}

static void t0_put_a(void) {
        put(0, 0, 'x');
}

static void t0_put_b(void) {
        put(0, 1, 'z');
}

static void t1_put_a(void) {
        put(1, 0, 'y');
}

static void t1_put_c(void) {
        put(1, 2, 'y');
}

static void t1_delete_a(void) {
        map_delete(1, 0);
}

/* The new entry has the slot of the old one, which the other put may have chosen. */
static void t1_delete_put_a(void) {
        map_delete(1, 0);
        put(1, 0, 'y');
}

static void t1_put_delete_put_a(void) {
        put(1, 0, 'x');
        map_delete(1, 0);
        put(1, 0, 'y');
}

static void t1_get_a(void) {
        world.results[1] = chain_get_by(&map_tries[1], 0);
}

static void t1_get_touch_a(void) {
        ShmMapKey key = map_key(0);
        char bytes[CHAIN_SIZE_MAX] = {};
        ShmMapView view;
        ssize_t n;

        n = shm_map_get_touch(world_actor(1), &map_tries[1], &key, 1, bytes, sizeof(bytes), &view);
        world.results[1] = n == -ENOENT ? 0 : n < 0 ? (int) n : bytes[0];
}

/* A large entry, for which a goes; a's slot is another object's then, which leaves the word of the end as it was. */
static void t0_evict_a(void) {
        static const char bytes[WORLD_SIZE_2 - 100];
        const ShmMapPut p = { .mode = SHM_MAP_PUT, .value = bytes, .value_size = sizeof(bytes) };
        const ShmMapKey key = { "key", 3, UINT64_C(1) << 58 };
        uint64_t handle;

        world.results[0] = shm_map_put(world_actor(0), &map_tries[0], &key, &p, NULL);
        if (shm_object_alloc(world_actor(0), WORLD_SIZE_4, 0, NULL, &handle, NULL) != 0)
                return;
        map_wipe_one(handle);
        map_victim = handle;
}

static void pre_victim(void) {
        init(&in_one, 3);
        entry(0, 'o');
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, ENTRY_COST(WORLD_SIZE_2));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = no_time;
        shm_chain_room = 0;
        ready();
}

static void post_victim(unsigned dead) {
        map_check_wiped_one(map_victim);
        map_repair(dead);
        (void) map_check_slots();
        if (!(dead & 1) && (world.results[0] != 0 || map_victim == 0))
                model_fail("put: %d", world.results[0]);
}

/* After a death the map is to be counted anew. */
static void check_map(unsigned dead) {
        ShmMapTotals totals;
        uint64_t bytes;

        map_repair(dead);
        bytes = chain_check(3);
        shm_map_totals(&world_arena, map_tries[0].map - 1, &totals);
        if (dead == 0 && totals.entries != (uint64_t) shm_map_count(&map_tries[MODEL_ACTORS_MAX]))
                model_fail("%lu entries are counted", (unsigned long) totals.entries);
        if (dead == 0 && totals.bytes != bytes)
                model_fail("%lu bytes are counted", (unsigned long) totals.bytes);
}

static void check(unsigned dead) {
        check_map(dead);
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("put: %d", world.results[0]);
}

static void check_b(unsigned dead) {
        check(dead);
        if (!(dead & 1) && get(1) != 'z')
                model_fail("b is %d", get(1));
}

/* The hand finds all entries; after a death the census sees to that. */
static void check_slabs(void) {
        const ShmTrie *trie = &map_tries[MODEL_ACTORS_MAX];

        for (unsigned k = 0; k < 3; k++) {
                ShmMapKey key = map_key(k);
                ShmTrieCursor c;
                ShmMapView view;

                if (shm_map_find(trie, &key, &c, &view) == 0 &&
                    !shm_set_has(&world_arena, shm_set_of_map(&world_arena, trie->map),
                                 slot_id_slab(shm_handle_slot(view.handle))))
                        model_fail("no hand finds key %u", k);
        }
}

/* The old value goes, or was replaced before; the new one stays. It may be put later, so that b goes for it. */
static void post_put_a(unsigned dead) {
        char a;

        check(dead);
        a = get(0);
        if (!(dead & 2) && (world.results[1] != 0 || a != 'y'))
                model_fail("put of a: %d, value %d", world.results[1], a);
        if (a != 0 && a != 'o' && a != 'y')
                model_fail("a is %d", a);
}

static void post_forget(unsigned dead) {
        post_put_a(dead);
        if (!shm_map_is_miscounted(&world_arena, map_tries[0].map - 1))
                check_slabs();
}

static void post_forget_again(unsigned dead) {
        check_map(dead);
        check_slabs();
}

static void post_delete_a(unsigned dead) {
        check_b(dead);
        if (!(dead & 2) && world.results[1] != 0 && world.results[1] != -ENOENT)
                model_fail("delete of a: %d", world.results[1]);
        if (!(dead & 2) && get(0) != 0)
                model_fail("a is there");
}

static void post_get_a(unsigned dead) {
        check_b(dead);
        if (!(dead & 2) && world.results[1] != 0 && world.results[1] != 'o')
                model_fail("get of a: %d", world.results[1]);
}

/* Neither of two puts that evict at once evicts the entry that the other puts. */
static void post_put_c(unsigned dead) {
        check_b(dead);
        if (!(dead & 2) && (world.results[1] != 0 || get(2) != 'y'))
                model_fail("put of c: %d, value %d", world.results[1], get(2));
}

/* There is an older one for each. */
static void post_delete_put_a(unsigned dead) {
        check_b(dead);
        if (!(dead & 2) && (world.results[1] != 0 || get(0) != 'y'))
                model_fail("put of a: %d, value %d", world.results[1], get(0));
}

/* Each may evict more than it has to, as the other evicts the same: also what was put in the sweep before. */
static void post_two_hands(unsigned dead) {
        ShmMapTotals totals;
        char a, b;

        map_repair(dead);
        (void) map_check_slots();
        (void) map_check_index();
        a = get(0);
        b = get(1);
        shm_map_totals(&world_arena, map_tries[0].map - 1, &totals);
        if (dead == 0 && totals.entries != (uint64_t) shm_map_count(&map_tries[MODEL_ACTORS_MAX]))
                model_fail("%lu entries are counted", (unsigned long) totals.entries);
        if (dead == 0 && totals.bytes > 2 * ENTRY_COST(WORLD_SIZE_4))
                model_fail("%lu bytes are counted", (unsigned long) totals.bytes);
        for (unsigned i = 0; i < 2; i++)
                if (!(dead >> i & 1) && world.results[i] != 0)
                        model_fail("put: %d", world.results[i]);
        if ((a != 0 && a != 'y' && (dead == 0 || a != 'o')) || (b != 0 && b != 'z') ||
            (dead == 0 && a == 0 && b == 0))
                model_fail("a is %d, b is %d", a, b);
}

/* The new value, or the old one whole. */
static void post_short_last(unsigned dead) {
        check(dead);
        if (get(0) != 'x' && (!(dead & 1) || get(0) != 'o'))
                model_fail("a is %d", get(0));
        if (!(dead & 2) && world.results[1] != 'o' && world.results[1] != 'x')
                model_fail("get of a: %d", world.results[1]);
}

static void post_short_get(unsigned dead) {
        post_short_last(dead);
        if (get(2) != 'c')
                model_fail("c is %d", get(2));
}

/* Somebody else may have the memory first, and keeps it. */
static void post_short_get_alloc(unsigned dead) {
        int got = world.results[1];

        (void) dead;
        if (got != 'o' && got != 'x')
                model_fail("get of a: %d", got);
        if (get(0) != (world.results[0] == 0 ? 'x' : 'o'))
                model_fail("put of a: %d, value %d", world.results[0], get(0));
}

/* The put is before the delete, or after it. */
static void post_short_delete(unsigned dead) {
        char a;

        check(dead);
        a = get(0);
        if (get(2) != 'c' || (a != 0 && a != 'x' && (dead == 0 || a != 'o')))
                model_fail("a is %d, c is %d", a, get(2));
        if (!(dead & 2) && world.results[1] != 0)
                model_fail("delete of a: %d", world.results[1]);
}

/* Two puts may fail for each other's sake, where nothing may be evicted. */
static void post_short_put(unsigned dead) {
        char a;

        check_map(dead);
        a = get(0);
        for (unsigned i = 0; i < 2; i++)
                if (!(dead >> i & 1) && world.results[i] != 0 && world.results[i] != -ENOMEM)
                        model_fail("put: %d", world.results[i]);
        if (get(2) != 'c' || (a != 'o' && a != 'x' && a != 'y'))
                model_fail("a is %d, c is %d", a, get(2));
        if (dead == 0 && a == 'o' && (world.results[0] == 0 || world.results[1] == 0))
                model_fail("a put is lost");
}

/* Both have room, and one of them may go for the other. */
static void post_short_evict_put(unsigned dead) {
        char a, b;

        check(dead);
        a = get(0);
        b = get(1);
        if (!(dead & 2) && world.results[1] != 0)
                model_fail("put of a: %d", world.results[1]);
        if ((a != 0 && a != 'o' && a != 'y') || (b != 0 && b != 'z') || (dead == 0 && a != 'y' && b != 'z'))
                model_fail("a is %d, b is %d", a, b);
}

/*
 * Two maps that evict, without nodes that stay. The second has an entry a; the rest of the memory is objects.
 */
static ShmTrie others[MODEL_ACTORS_MAX + 1]; /* each actor's view of the second map; the last is post()'s */

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return 5 * SHM_NS_PER_MS;
}

static void other_init(void) {
        uint64_t root;

        map_must(shm_trie_create(&world_actors[0], shm_epoch_number(0, 1), &root));
        map_must(shm_object_publish(&world_actors[0], root));
        map_must(shm_root_set(&world_arena, "other", 0, root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++) {
                map_must(shm_trie_open(&others[i], &world_arena, root));
                shm_map_attach(&others[i]);
                others[i].now_ns = map_tries[i].now_ns = clock_ns;
                if (i < MODEL_ACTORS_MAX)
                        model_own(i, &others[i], sizeof(ShmTrie));
        }
        TRIE_SET_OPTION(&others[0], evict, SHM_MAP_EVICT_SIEVE);
}

static void pre_beside(void) {
        map_shape = MAP_SHRINKS;
        init(&in_one, 1);
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, 0);
        other_init();
        map_must(chain_put_as(&world_actors[0], &others[MODEL_ACTORS_MAX], 0, 'o', 0));
        shm_tally_flush(&world_actors[0]);
        (void) chain_fill_up(0);
        map_ready(1);
}

static void t1_delete_other(void) {
        ShmMapKey key = map_key(0);

        world.results[1] = shm_map_delete(world_actor(1), &others[1], &key, 0);
}

static void t1_get_other(void) {
        world.results[1] = chain_get_by(&others[1], 0);
}

/* After a death a map is counted anew, or its count is right. */
static void check_count(const ShmTrie *trie, uint32_t size) {
        ShmMapTotals totals;

        shm_map_totals(&world_arena, trie->map - 1, &totals);
        if (!shm_map_is_miscounted(&world_arena, trie->map - 1) &&
            (totals.entries != (uint64_t) shm_map_count(trie) ||
             totals.bytes != totals.entries * ENTRY_COST(size)))
                model_fail("map %u: %lu entries and %lu bytes are counted", trie->map,
                           (unsigned long) totals.entries, (unsigned long) totals.bytes);
}

/* Returns the second map's value. */
static char check_beside(unsigned dead) {
        const ShmTrie *other = &others[MODEL_ACTORS_MAX];
        unsigned n_others = chain_n_others;
        int a;

        map_repair(dead);
        a = chain_get_by(other, 0);
        chain_n_others += 1 + (a != 0);
        chain_check(3);
        chain_n_others = n_others;
        check_count(&map_tries[MODEL_ACTORS_MAX], WORLD_SIZE_4);
        check_count(&others[MODEL_ACTORS_MAX], WORLD_SIZE_4);
        return (char) a;
}

/* A delete that is under way, or died, holds the only slot: the put may find none. */
static void post_beside_delete(unsigned dead) {
        char a = check_beside(dead);

        if (!(dead & 1) && world.results[0] != -ENOMEM && (world.results[0] != 0 || get(1) != 'z'))
                model_fail("put of b: %d, value %d", world.results[0], get(1));
        if (!(dead & 2) && (a != 0 || (world.results[1] != 0 && world.results[1] != -ENOENT)))
                model_fail("delete of the other's a: %d, value %d", world.results[1], a);
}

static void post_beside_get(unsigned dead) {
        char a = check_beside(dead);

        if (!(dead & 1) && (world.results[0] != 0 || get(1) != 'z' || a != 0))
                model_fail("put of b: %d, value %d, and the other's a %d", world.results[0], get(1), a);
        if (!(dead & 2) && world.results[1] != 0 && world.results[1] != 'o')
                model_fail("get of the other's a: %d", world.results[1]);
}

/*
 * The second map has most of the memory, but each of its entries is in a slab with another object. So when six of them
 * are evicted, there is no slot for b yet, and a goes in the fourth try.
 */
#define N_BESIDE 7

static void pre_beside_objects(void) {
        uint64_t handle;

        map_shape = MAP_SHRINKS;
        init(&in_one, 1 + N_BESIDE);
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, 0);
        other_init();
        entry(0, 'o');
        for (uint32_t i = 0; i < N_BESIDE; i++) {
                map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_2, 0, NULL, &handle, NULL));
                entry_large(&others[MODEL_ACTORS_MAX], (uint64_t) i << 58);
        }
        shm_tally_flush(&world_actors[0]);
        (void) chain_fill_up(0);
        chain_n_others += 1 + 1 + N_BESIDE; /* root, node, objects */
        ready();
}

static void t_nothing(void) {
}

/* Returns how many entries the second map has. */
static ssize_t check_beside_objects(unsigned dead) {
        unsigned n_others = chain_n_others;
        ssize_t n;

        map_repair(dead);
        n = shm_map_count(&others[MODEL_ACTORS_MAX]);
        chain_n_others += (unsigned) n;
        chain_check(3);
        chain_n_others = n_others;
        check_count(&map_tries[MODEL_ACTORS_MAX], WORLD_SIZE_4);
        check_count(&others[MODEL_ACTORS_MAX], WORLD_SIZE_2);
        return n;
}

/* Three tries evict one, two and three entries of the second map. */
static void post_beside_objects(unsigned dead) {
        ssize_t n = check_beside_objects(dead);
        char a = get(0), b = get(1);

        if (n < 1)
                model_fail("no entry of the other map is left");
        if (dead & 1 ? (a != 0 && a != 'o') || (b != 0 && b != 'z')
                     : world.results[0] != 0 || a != 0 || b != 'z')
                model_fail("put of b: %d, a is %d, b is %d", world.results[0], a, b);
}

/* A delete that is under way, or died, holds the only slot: the put may find none. */
static void post_beside_objects_delete(unsigned dead) {
        (void) check_beside_objects(dead);
        if (!(dead & 1) && world.results[0] != -ENOMEM && (world.results[0] != 0 || get(1) != 'z'))
                model_fail("put of b: %d, value %d", world.results[0], get(1));
        if (!(dead & 2) && (get(0) != 0 || (world.results[1] != 0 && world.results[1] != -ENOENT)))
                model_fail("delete of a: %d, value %d", world.results[1], get(0));
}

static void post_beside_objects_get(unsigned dead) {
        post_beside_objects(dead);
        if (!(dead & 2) && world.results[1] != 0 && world.results[1] != 'o')
                model_fail("get of a: %d", world.results[1]);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "get-touch-slot", .pre = pre_victim, .actors = { t0_evict_a, t1_get_touch_a }, .post = post_victim,
          .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "evict-put", .pre = pre_a_c, .actors = { t0_put_b, t1_put_a },
          .post = post_put_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-forget", .pre = pre_forget, .actors = { t0_put_b, t1_put_a },
          .post = post_forget, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-forget-late-map", .pre = pre_forget_late_map, .actors = { t0_put_b, t1_put_a },
          .post = post_forget, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-forget-again", .pre = pre_forget_again, .actors = { t0_put_b, t1_put_delete_put_a },
          .post = post_forget_again, .deaths = 0, .preemptions = 4, .full_preemptions = 4 },
        { .name = "evict-delete", .pre = pre_a_c, .actors = { t0_put_b, t1_delete_a },
          .post = post_delete_a, .deaths = 2, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-get", .pre = pre_a_c, .actors = { t0_put_b, t1_get_a },
          .post = post_get_a, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "evict-get-touch", .pre = pre_touched, .actors = { t0_put_b, t1_get_touch_a },
          .post = post_get_a, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "evict-evict", .pre = pre_passed_a, .actors = { t0_put_b, t1_put_c },
          .post = post_put_c, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-late", .pre = pre_unused, .actors = { t0_put_b, t1_delete_put_a },
          .post = post_delete_put_a, .deaths = 2, .preemptions = 3, .full_preemptions = 8 },
        { .name = "evict-two-hands", .pre = pre_two_hands, .actors = { t0_put_b, t1_put_a },
          .post = post_two_hands, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-put-in-two", .pre = pre_in_two, .actors = { t0_put_b, t1_put_a },
          .post = post_put_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "evict-get-in-two", .pre = pre_in_two_tight, .actors = { t0_put_b, t1_get_a },
          .post = post_get_a, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "short-get", .pre = pre_short, .actors = { t0_put_a, t1_get_a },
          .post = post_short_get, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "short-get-in-blocks", .pre = pre_short_in_blocks, .actors = { t0_put_a, t1_get_a },
          .post = post_short_get, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "short-delete", .pre = pre_short, .actors = { t0_put_a, t1_delete_a },
          .post = post_short_delete, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "short-last-get", .pre = pre_short_last, .actors = { t0_put_a, t1_get_a },
          .post = post_short_last, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "short-put", .pre = pre_short_never, .actors = { t0_put_a, t1_put_a },
          .post = post_short_put, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "short-get-alloc", .pre = pre_short, .actors = { t0_put_a, t1_get_a, t2_alloc },
          .post = post_short_get_alloc, .deaths = 0, .preemptions = 2, .full_preemptions = 3 },
        { .name = "short-evicted-get", .pre = pre_short_evicted, .actors = { t0_put_b, t1_get_a },
          .post = post_get_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "short-evict-get", .pre = pre_short_full, .actors = { t0_put_b, t1_get_a },
          .post = post_get_a, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "short-evict-delete", .pre = pre_short_full, .actors = { t0_put_b, t1_delete_a },
          .post = post_delete_a, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "short-evict-put", .pre = pre_short_full, .actors = { t0_put_b, t1_put_a },
          .post = post_short_evict_put, .deaths = 0, .preemptions = 1, .full_preemptions = 2 },
        { .name = "short-evict-put-death", .pre = pre_short_full, .actors = { t0_put_b, t1_put_a },
          .post = post_short_evict_put, .deaths = 1, .preemptions = 1, .full_preemptions = 1, .full_only = true },
        { .name = "beside-delete", .pre = pre_beside, .actors = { t0_put_b, t1_delete_other },
          .post = post_beside_delete, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "beside-get", .pre = pre_beside, .actors = { t0_put_b, t1_get_other },
          .post = post_beside_get, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "short-tight-get", .pre = pre_short_tight, .actors = { t0_put_a, t1_get_a },
          .post = post_short_last, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "beside-objects", .pre = pre_beside_objects, .actors = { t0_put_b, t_nothing },
          .post = post_beside_objects, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "beside-objects-delete", .pre = pre_beside_objects, .actors = { t0_put_b, t1_delete_a },
          .post = post_beside_objects_delete, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "beside-objects-get", .pre = pre_beside_objects, .actors = { t0_put_b, t1_get_a },
          .post = post_beside_objects_get, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
};
/* clang-format on */
