/*
 * Gets by a shortcut, beside a thread that replaces, deletes or removes. A get by the trie and then one by a shortcut
 * never see the value that came first after the one that came later.
 */
#include "shm/arena/client.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/shortcut.h"
#include "shm/map/entry/tag.h"
#include "shm/map/state/map-remove.h"
#include "shm/map/state/tally.h"
#include "tests/model/cell-world.h"
#include "tests/model/control.h"

/* The entry of a has a shortcut: the map counts as large, and the table has a page. */
static void large_map(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;

        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                note_map(i);
        world_arena.header->maps[map_tries[put].map - 1].counts[SHM_MAP_BYTES] = SHM_SHORTCUT_MAP_BYTES;
        world_arena.header->n_shortcut_pages = 1;
        shm_shortcut_begin(world_actor(put), &map_tries[put]);
        world_arena.header->maps[map_tries[put].map - 1].counts[SHM_MAP_BYTES] = 0;
}

static void expect_shortcut(int r) {
        uint64_t leaf = view_of(0).handle;

        map_must(r);
        if (leaf == 0 || shm_shortcut_find(&map_tries[MODEL_ACTORS_MAX], MAP_HASH) != leaf)
                model_fail("no shortcut");
        shm_tally_flush(world_actor(MODEL_ACTORS_MAX - 1));
}

static void entry_a(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;

        init();
        large_map();
        map_put(put, 0, 'o', SHM_MAP_PUT, 0);
        expect_shortcut(world.results[put]);
}

static uint64_t leaf_of_a;

static void pre(void) {
        entry_a();
        leaf_of_a = view_of(0).handle;
        map_ready(1);
}

/* The leaf's slot is the next that is used again. */
static void pre_room(void) {
        entry_a();
        leaf_of_a = view_of(0).handle;
        (void) world_objects(1, WORLD_SIZE_4, 0);
        map_ready(1);
}

static ssize_t get(unsigned actor, char *ret) {
        ShmMapKey key = map_key(0);

        return shm_map_get(&map_tries[actor], &key, ret, 1, NULL);
}

/* As a get that has no shortcut. 0: absent. */
static char get_by_trie(unsigned actor) {
        ShmMapKey key = map_key(0);
        ShmTrieCursor c;
        ShmMapView view;
        char value = 0;

        if (shm_map_find(&map_tries[actor], &key, &c, &view) != 0 || view.is_over)
                return 0;
        (void) shm_map_copy(&map_tries[actor], &view, 0, &value, 1);
        return shm_map_view_live(&world_arena, &view) ? value : '?';
}

static void t0_put(void) {
        map_put(0, 0, 'n', SHM_MAP_PUT, 0);
}

static void t0_delete(void) {
        map_delete(0, 0);
}

/* In place of the end of the leaf, another owner of the slot has this: as an end, it would have no mark. */
static uint64_t victim_end(void) {
        return 4 ^ shm_leaf_seal(leaf_of_a);
}

static uint64_t *end_in_slot(uint64_t handle) {
        SlotId id = shm_handle_slot(handle);

        return (uint64_t *) map_line(slot_id_slab(id), slot_id_slot(id), 0) +
               offsetof(ShmMapLeaf, expires) / sizeof(uint64_t);
}

static void t1_delete_take_slot(void) {
        uint64_t handle;

        map_delete(1, 0);
        if (shm_object_alloc(world_actor(1), WORLD_SIZE_4, 0, NULL, &handle, NULL) != 0 ||
            shm_handle_slot(handle).value != shm_handle_slot(leaf_of_a).value)
                return;
        shm_store_rlx(end_in_slot(handle), victim_end());
        map_victim = handle;
}

static void t0_remove(void) {
        world.results[0] = shm_map_remove(world_actor(0), "map", 0);
}

/* The later value, or none, is seen; then only that is. */
static void t1_get_twice(void) {
        char first = get_by_trie(1), then = 0;
        ssize_t n = get(1, &then);

        if (n == 1 && then != 'o' && then != 'n')
                model_fail("the value is %c", then);
        if (first != 'o' && first != '?' && n == 1 && then == 'o')
                model_fail("the entry was gone, and came back");
}

static void t1_get(void) {
        char value;

        world.results[1] = (int) get(1, &value);
}

static void post(unsigned dead) {
        (void) dead;
}

static void post_victim(unsigned dead) {
        (void) dead;
        if (map_victim != 0 && *end_in_slot(map_victim) != victim_end())
                model_fail("the mark is in an object of another owner");
}

/*
 * An old shortcut of a, or one that comes late, has the tag of the key's next leaf: its slot was used 512 times since.
 * There is one slot for leaves.
 */
#define TAGS 512U

static void one_slot(void) {
        entry_a();
        leaf_of_a = view_of(0).handle;
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_delete(MODEL_ACTORS_MAX - 1, 0);
}

/* The slot was used, and is free. */
static void use_slot(uint32_t n) {
        uint32_t *tag = shm_slot_tag(&world_arena, shm_handle_slot(leaf_of_a));

        shm_store_rlx(tag, shm_load_rlx(tag) + 2 * n);
}

static void pre_none(void) {
        one_slot();
        map_ready(1);
}

static void t0_insert(void) {
        map_put(0, 0, 'n', SHM_MAP_INSERT, 0);
}

/* The leaf's object is the only one that others may be about to free. */
static void t1_delete_insert(void) {
        map_delete(1, 0);
        if (world.results[1] != 0)
                return;
        use_slot(TAGS - 1);
        map_put(1, 0, 'm', SHM_MAP_INSERT, 0);
}

/* Nobody replaces it. */
static void t2_get_by_both(void) {
        char value, then;

        if (get(2, &value) != 1 || value != 'm')
                return;
        then = get_by_trie(2);
        if (then != value)
                model_fail("a get sees %c, which is not in the map", value);
}

/*
 * The entry goes by other ways than a delete. t1_get_twice() sees it, or not; then it does not come back.
 */
static void pre_ends(void) {
        init();
        large_map();
        expect_shortcut(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, END));
        map_ready(1);
}

/* A put evicts it, and has its slot. */
static void pre_full(void) {
        entry_a();
        (void) world_objects(2, WORLD_SIZE_4, 0);
        TRIE_SET_OPTION(&map_tries[0], limit_bytes, ENTRY_COST(WORLD_SIZE_4));
        TRIE_SET_OPTION(&map_tries[0], evict, SHM_MAP_EVICT_SIEVE);
        world_arena.header->maps[0].hands[0].place = UINT64_C(2) << 32;
        world_arena.lines[0].young[0] = 0;
        map_ready(1);
}

static void t0_evict(void) {
        map_put(0, 1, 'z', SHM_MAP_PUT, 0);
}

static void post_evict(unsigned dead) {
        if (dead == 0 && (world.results[0] != 0 || view_of(0).handle != 0 || view_of(1).handle == 0))
                model_fail("put of b: %d", world.results[0]);
}

static void t0_pass(void) {
        pass_at(0, END);
}

static void t0_insert_over(void) {
        set_clock(END);
        t0_insert();
}

static void t0_take(void) {
        take(0);
}

static void t0_delete_add(void) {
        map_delete(0, 0);
        world.results[0] = add_to(0, 0, 1);
}

static void pre_process(void) {
        ShmClientInfo info = { .pid = 7 };

        pre_ends();
        do
                map_must(shm_client_add(&world_arena, &info));
        while (info.index + 1 < world_actors[0].process);
        map_ready(1);
}

/* The entry is over; then there is another value. */
static void t0_claim_put(void) {
        const ShmMapClaim claim = { .limit_ms = 10 };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};

        set_clock(END);
        world.results[0] = shm_map_claim(world_actor(0), &map_tries[0], &key, &claim, &claimed);
        if (world.results[0] == 0)
                map_put(0, 0, 'n', SHM_MAP_PUT, 0);
}

/* It has a tag, which is invalidated. */
static ShmMapKey tag_key(void) {
        return (ShmMapKey){ "t", 1, MAP_HASH_FAR };
}

static void pre_tagged(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;
        ShmMapPut p = { .value = "o", .value_size = 1, .n_tags = 1 };
        ShmMapKey key, t = tag_key();
        uint64_t tag;

        init();
        key = map_key(0);
        large_map();
        map_must(shm_map_tag(world_actor(put), &map_tries[put], &t, 0, &tag));
        p.tags = &tag;
        expect_shortcut(shm_map_put(world_actor(put), &map_tries[put], &key, &p, NULL));
        map_ready(1);
}

static void t0_invalidate(void) {
        ShmMapKey key = tag_key();

        world.results[0] = shm_map_invalidate(world_actor(0), &map_tries[0], &key);
}

/* Its epoch is revoked, and another entry put in another one. */
static void pre_revoke(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;

        map_init(2, 0, MAP_HASH, MAP_HASH_FAR, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = clock_ns;
        set_clock(0);
        large_map();
        map_put(put, 0, 'o', SHM_MAP_PUT, 1);
        expect_shortcut(world.results[put]);
        map_ready(2);
        model_own(0, &map_control, sizeof(map_control));
}

static void t0_revoke_put(void) {
        map_revoke(world_actor(0));
        map_put(0, 0, 'n', SHM_MAP_PUT, 0);
}

/* The slot of the entry that was deleted is in a cache, which control empties; then the slot has another object. */
static void pre_drain(void) {
        entry_a();
        leaf_of_a = view_of(0).handle;
        (void) world_objects(2, WORLD_SIZE_4, 0);
        world_set_caching(0, 0);
        control_init();
        map_ready(1);
}

static void t2_drain(void) {
        uint64_t handle;

        control_freeze(1);
        if (shm_object_alloc(world_actor(2), WORLD_SIZE_4, 0, NULL, &handle, NULL) == 0)
                shm_store_rlx(end_in_slot(handle), victim_end());
}

/* As pre_none(); the slot was used since, so that the old shortcut names the key's next leaf already. */
static void pre_used(void) {
        one_slot();
        map_ready(1);
        use_slot(TAGS - 1);
}

/* A get guesses how large the leaf's slot is, since it read another before. */
static void pre_used_guess(void) {
        pre_used();
        *(uint32_t *) &map_tries[1].leaf_room = WORLD_SIZE_4;
}

/* As large a slot as for the value before, and another size. */
static void t0_insert_long(void) {
        const ShmMapPut put = { .mode = SHM_MAP_INSERT, .value = "nn", .value_size = 2 };
        ShmMapKey key = map_key(0);

        world.results[0] = shm_map_put(world_actor(0), &map_tries[0], &key, &put, NULL);
}

static void t1_get_long(void) {
        ShmMapKey key = map_key(0);
        char value[2];
        ssize_t n = shm_map_get(&map_tries[1], &key, value, sizeof(value), NULL);

        if (n < 0)
                return;
        if (n != 2 || value[0] != 'n' || value[1] != 'n')
                model_fail("a get finds %zd bytes of a value of 2", n);
        if (get_by_trie(1) != 'n')
                model_fail("a get finds a leaf that is not linked");
}

/* When shm_map_remove() has returned, calls that begin find no map. */
static void t0_remove_get(void) {
        char value;

        t0_remove();
        if (world.results[0] == 0 && get(0, &value) != -EIDRM)
                model_fail("an entry of a map that was removed");
}

#define TWO(_name, _pre, _t0, _t1, _post)                                                                    \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1 }, .post = _post, .deaths = 1,              \
                .preemptions = 3, .full_preemptions = 4, .weak = true                                        \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        TWO("get-put", pre, t0_put, t1_get_twice, post),
        TWO("get-delete", pre, t0_delete, t1_get_twice, post),
        TWO("get-remove", pre, t0_remove_get, t1_get, post),
        { .name = "get-insert-late", .pre = pre_none, .actors = { t0_insert, t1_delete_insert, t2_get_by_both },
          .post = post, .deaths = 0, .preemptions = 2, .full_preemptions = 3, .weak_full = true },
        { .name = "get-evict", .pre = pre_full, .actors = { t0_evict, t1_get_twice }, .post = post_evict,
          .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true, .weak_preemptions = 2 },
        TWO("get-pass", pre_ends, t0_pass, t1_get_twice, post),
        TWO("get-insert-over", pre_ends, t0_insert_over, t1_get_twice, post),
        TWO("get-take", pre, t0_take, t1_get_twice, post),
        TWO("get-delete-add", pre, t0_delete_add, t1_get_twice, post),
        { .name = "get-claim", .pre = pre_process, .actors = { t0_claim_put, t1_get_twice }, .post = post, .deaths = 1,
          .preemptions = 3, .full_preemptions = 4, .weak_full = true },
        TWO("get-invalidate", pre_tagged, t0_invalidate, t1_get_twice, post),
        TWO("get-revoke", pre_revoke, t0_revoke_put, t1_get_twice, post),
        { .name = "get-drain", .pre = pre_drain, .actors = { t0_delete, t1_get_twice, t2_drain }, .post = post,
          .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak_full = true },
        TWO("get-insert-used", pre_used, t0_insert_long, t1_get_long, post),
        TWO("get-insert-guess", pre_used_guess, t0_insert_long, t1_get_long, post),
        TWO("put-free", pre_room, t0_put, t1_delete_take_slot, post_victim),
};
/* clang-format on */
