/*
 * Values in chains: of three chunks, which the head names; of four chunks in two blocks, which more than one walk
 * frees; and in two pieces, one of which is in the head. Actors change one entry at the same time, with deaths, and
 * during a revocation of epoch 1, which has the values. In that case control is the last actor, as in map-revoke.h.
 *
 * A get returns one value whole; a put or delete that returned is done; chunks and blocks go with their head, and no
 * other object with them.
 */
#include <stdlib.h>

#include "shm/cache/cache.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/rollback.h"
#include "tests/model/calls.h"
#include "tests/model/chain-world.h"
#include "tests/model/control.h"

#define REVOKED 1

#define victim world.notes[1]

/*
 * Actors
 */
static void t0_put(void) {
        world.results[0] = chain_put_as(world_actor(0), &map_tries[0], 0, 'x', 0);
}

static void t1_put(void) {
        world.results[1] = chain_put_as(world_actor(1), &map_tries[1], 0, 'y', 0);
}

static void t1_delete(void) {
        map_delete(1, 0);
}

static void t1_get(void) {
        world.results[1] = chain_get_by(&map_tries[1], 0);
}

static void t0_put_1(void) {
        world.results[0] = chain_put_as(world_actor(0), &map_tries[0], 0, 'x', 1);
}

/*
 * Before and after
 */
static void pre(const Value *v, uint32_t n_slabs, bool any, uint32_t epoch) {
        chain_set(v);
        map_init(n_slabs, 0, MAP_HASH, MAP_HASH_FAR, 0);
        if (any)
                map_must(chain_put_as(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], 0, 'o', epoch));
}

static void pre_none(void) {
        pre(&in_blocks, 7, false, 0);
        map_ready(7);
}

static void pre_one(void) {
        pre(&in_head, 5, true, 0);
        map_ready(5);
}

static void pre_one_in_blocks(void) {
        pre(&in_blocks, 7, true, 0);
        map_ready(7);
}

static void pre_one_in_two(void) {
        pre(&in_two, 4, true, 0);
        map_ready(4);
}

/* There is room for one more value, and nothing else. */
static void pre_one_tight(void) {
        pre(&in_head, 5, true, 0);
        (void) chain_fill_up(value->n_objects);
        map_ready(5);
}

static void pre_one_tight_in_blocks(void) {
        pre(&in_blocks, 7, true, 0);
        (void) chain_fill_up(value->n_objects);
        map_ready(7);
}

static void pre_one_tight_in_two(void) {
        pre(&in_two, 4, true, 0);
        (void) chain_fill_up(value->n_objects);
        map_ready(4);
}

/* The last chunk of a value has no room. */
static void pre_one_full(void) {
        pre(&in_head, 5, true, 0);
        (void) chain_fill_up(value->n_objects - 1);
        map_ready(5);
}

static void pre_one_full_in_two(void) {
        pre(&in_two, 4, true, 0);
        (void) chain_fill_up(value->n_objects - 1);
        map_ready(4);
}

static int compare_slots(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return x < y ? -1 : x > y;
}

/* Slots of the cache are named in another order than they leave it: those at higher addresses were freed later. */
static void pre_one_cached(void) {
        uint32_t *slots;

        pre(&in_head, 5, true, 0);
        world_set_caching(0, 0);
        world_fill_cache(1, 4, 64);
        slots = shm_arena_cache(&world_arena, 1, 0, 0)->slots;
        qsort(slots, 4, sizeof(*slots), compare_slots);
        map_ready(5);
}

/* Each free slot is full of the handle of an object that is live. */
static void pre_none_handles(void) {
        uint64_t handles[28];
        unsigned n = 0;

        pre(&in_head, 4, false, 0);
        map_must(shm_object_alloc(&world_actors[1], 64, 0, NULL, &victim, NULL));
        while (n < 28 && shm_object_alloc(&world_actors[1], 64, 0, NULL, &handles[n], NULL) == 0)
                n++;
        for (unsigned i = 0; i < n; i++) {
                uint64_t *words = shm_slot_address(&world_arena, shm_handle_slot(handles[i]), 0);

                for (unsigned k = 0; k < 8; k++)
                        words[k] = victim;
                map_must(shm_object_free(&world_actors[1], handles[i]));
        }
        chain_n_others = 1;
        map_ready(4);
}

static void empty_caches(ShmActor *actor) {
        shm_actor_enter(actor);
        (void) shm_cache_drain(actor);
        shm_actor_leave(actor);
}

/* The value; all live objects are root, index and an entry with its chunks and blocks. */
static int check(unsigned dead) {
        map_repair(dead);
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (!(dead >> i & 1))
                        empty_caches(world_actor(i));
        chain_check(1);
        return chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0);
}

static void post_put_put(unsigned dead) {
        int a = check(dead);

        if (dead == 0 && (world.results[0] || world.results[1] || (a != 'x' && a != 'y')))
                model_fail("puts %d %d, value %d", world.results[0], world.results[1], a);
        if (dead != 3 && a != 'x' && a != 'y')
                model_fail("a put is lost: %d", a);
}

/* Repair frees nothing that bytes in the put's slots named. */
static void post_handles(unsigned dead) {
        int a = check(dead);

        if (!shm_object_live(&world_arena, victim))
                model_fail("put %d, value %d: another object is freed", world.results[0], a);
        if (dead == 0 && a != 'x')
                model_fail("put %d, value %d", world.results[0], a);
}

/* The put fails, and nothing of its value is left. */
static void post_full(unsigned dead) {
        int a = check(dead);

        if (a != 'o' || (!(dead & 1) && world.results[0] != -ENOMEM))
                model_fail("put %d, value %d", world.results[0], a);
}

static void post_put_delete(unsigned dead) {
        int a = check(dead);

        if (dead == 0 && a != 0 && a != 'x')
                model_fail("put %d, delete %d, value %d", world.results[0], world.results[1], a);
}

static void post_put_get(unsigned dead) {
        int a = check(dead), got = world.results[1];

        if (!(dead & 2) && got != 'o' && got != 'x')
                model_fail("got %d", got);
        if (a != 'x' && (!(dead & 1) || a != 'o'))
                model_fail("put %d, value %d", world.results[0], a);
}

static void post_put_get_alloc(unsigned dead) {
        int a = chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0), got = world.results[1];

        (void) dead;
        if (got != 'o' && got != 'x')
                model_fail("got %d", got);
        if (world.results[0] == 0 ? a != 'x' : a != 'o' || world.results[2] != 0)
                model_fail("put %d, value %d", world.results[0], a);
}

static void post_delete_get(unsigned dead) {
        int a = check(dead), got = world.results[0];

        if (!(dead & 1) && got != 'o' && got != 0)
                model_fail("got %d", got);
        if (a != 0 && (!(dead & 2) || a != 'o'))
                model_fail("delete %d, value %d", world.results[1], a);
}

static void t0_get(void) {
        world.results[0] = chain_get_by(&map_tries[0], 0);
}

/*
 * Beside a revocation
 */
static void revoke_reuse(ShmActor *actor) {
        uint64_t handle;

        map_revoke(actor);
        if (shm_object_alloc(actor, WORLD_SIZE_1, 0, NULL, &handle, NULL) == 0) {
                map_wipe(handle);
                victim = handle;
        }
}

static void t1_revoke(void) {
        revoke_reuse(world_actor(1));
}

/* Actor 0 has a cache for values of the epoch. */
static void cache_revoked(void) {
        world_actor(0)->mode = SHM_CACHE_ON;
        model_watch(shm_arena_cache(&world_arena, world_actor(0)->id, REVOKED, 0));
}

/* One free slot in each of two slabs of the epoch: the head, and what it names first, are in slabs that empty apart. */
static void pre_revoke_value(const Value *v, uint32_t n_slabs, bool cached) {
        uint64_t handles[8];

        pre(v, n_slabs, false, 0);
        for (unsigned i = 0; i < 8; i++)
                map_must(shm_object_alloc(&world_actors[1], 64, shm_epoch_number(REVOKED, 1), NULL,
                                          &handles[i], NULL));
        map_must(shm_object_free(&world_actors[1], handles[0]));
        map_must(shm_object_free(&world_actors[1], handles[4]));
        if (cached)
                cache_revoked();
        world_set_control(1);
        model_own(1, &map_control, sizeof(map_control));
        map_ready(n_slabs);
}

static void pre_revoke(void) {
        pre_revoke_value(&in_head, 4, false);
}

static void pre_revoke_in_blocks(void) {
        pre_revoke_value(&in_blocks, 5, false);
}

static void pre_revoke_in_two(void) {
        pre_revoke_value(&in_two, 4, false);
}

static void pre_revoke_cached(void) {
        pre_revoke_value(&in_head, 5, true);
}

/* Actor 0 stops also in front of bytes that it copies, and its guards are seen late. */
static void make_late(void) {
        model_copies = true;
        world_set_late(0);
}

static void pre_revoke_late(void) {
        pre_revoke();
        make_late();
}

static void pre_revoke_in_blocks_late(void) {
        pre_revoke_in_blocks();
        make_late();
}

static void pre_revoke_in_two_late(void) {
        pre_revoke_in_two();
        make_late();
}

static void pre_revoke_cached_late(void) {
        pre_revoke_cached();
        make_late();
}

/* The victim is as it was; nothing of the epoch is left, once all have ended, or were repaired. */
static void check_revoked(unsigned dead, bool control_died) {
        ShmRepairCounts counts;

        map_check_wiped(victim);
        if (control_died)
                shm_repair_control(&world_actors[0], &map_control.reach, &counts);
        map_repair(dead);
        if (!(dead & 1))
                empty_caches(world_actor(0));
        map_revoke(&world_actors[0]);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);

                if (shm_slab_view_taken(&world_arena, w) && slab_word_epoch(w) == REVOKED)
                        model_fail("slab %u is not given back", slab);
        }
        (void) map_check_slots();
}

static void post_revoke(unsigned dead) {
        int a;

        check_revoked(dead, dead & 2);
        a = chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0);
        if (a != 0)
                model_fail("put %d, value %d", world.results[0], a);
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ESHUTDOWN)
                model_fail("put %d", world.results[0]);
}

/*
 * A chain that two free: a third thread died when it was about to unlink the value as well, and control rolls its
 * record back. There is no room but where the chain was.
 */
static void t0_delete_put(void) {
        map_delete(0, 0);
        if (world.results[0] == 0)
                t0_put();
}

static void t1_roll_back(void) {
        (void) shm_rollback_named(world_actor(1), world_actor(2)->id);
}

static uint64_t first_head(void) {
        ShmMapKey key = map_key(0);
        ShmTrieCursor c;
        ShmMapView view;

        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        return view.handle;
}

static void note_value(uint32_t n_slabs) {
        victim = chain_fill_up(0);
        map_must(shm_actor_note(world_actor(2), first_head(), map_root, map_key(0).hash));
        (void) shm_record_mark_dead(&world_arena, world_actor(2)->id);
        world_set_control(1);
        map_ready(n_slabs);
}

static void pre_noted(const Value *v, uint32_t n_slabs) {
        pre(v, n_slabs, true, 0);
        note_value(n_slabs);
}

/* Whether a word of the next head in this slot looks like a leaf with the seal of this one, too: one in four does. */
static bool are_alike(uint64_t head) {
        uint32_t key = world_arena.key;
        uint64_t next = shm_handle_make(key, shm_handle_slot(head), shm_handle_tag(key, head) + 2);

        return shm_trie_kind(shm_leaf_seal(head) ^ shm_leaf_seal(next)) == 0;
}

static void pre_noted_alike(void) {
        pre(&in_two, 4, true, 0);
        while (!are_alike(first_head()))
                map_must(chain_put_as(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], 0, 'o', 0));
        note_value(4);
}

static void pre_noted_in_head(void) {
        pre_noted(&in_head, 5);
}

static void pre_noted_in_two(void) {
        pre_noted(&in_two, 4);
}

static void pre_noted_in_blocks(void) {
        pre_noted(&in_blocks, 7);
}

static void post_rolled_back(unsigned dead) {
        ShmRepairCounts counts;
        int a;

        if (dead & 2)
                shm_repair_control(&world_actors[0], &map_control.reach, &counts);
        a = check(dead);
        if (!(dead & 1) && (a != 'x') != (world.results[0] == -ENOMEM))
                model_fail("put %d, value %d", world.results[0], a);
}

/*
 * Two free a chain, of the epoch that is revoked: a thread that deletes the value, and control, for a thread that died
 * when it was about to unlink it, too, or in the middle of that. Then somebody else uses what is free.
 */
static void t0_delete(void) {
        map_delete(0, 0);
}

static void t2_repair_revoke(void) {
        control_repair();
        revoke_reuse(world_actor(2));
}

static void free_revoked_ready(uint32_t n_slabs) {
        control_init();
        model_own(2, &map_control, sizeof(map_control));
        map_ready(n_slabs);
}

/* The head has the last slot of its slab: chunks are in another one, which empties apart. */
static void pre_apart(const Value *v, uint32_t n_slabs) {
        uint64_t handle;

        pre(v, n_slabs, false, 0);
        for (unsigned i = 0; i < 3; i++)
                map_must(shm_object_alloc(&world_actors[1], 64, shm_epoch_number(REVOKED, 1), NULL, &handle,
                                          NULL));
        map_must(chain_put_as(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], 0, 'o', REVOKED));
}

static void pre_free_revoke_value(const Value *v, uint32_t n_slabs) {
        ShmMapKey key;
        ShmTrieCursor c;
        ShmMapView view;

        pre_apart(v, n_slabs);
        key = map_key(0);
        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        map_must(shm_actor_note(world_actor(1), view.handle, map_root, key.hash));
        (void) shm_record_mark_dead(&world_arena, world_actor(1)->id);
        free_revoked_ready(n_slabs);
}

static void pre_free_revoke(void) {
        pre_free_revoke_value(&in_head, 3);
}

static void pre_free_revoke_in_blocks(void) {
        pre_free_revoke_value(&in_blocks, 4);
}

static void pre_free_revoke_in_two(void) {
        pre_free_revoke_value(&in_two, 3);
}

static void post_free_revoke(unsigned dead) {
        int a;

        check_revoked(dead | 2, dead & 4);
        a = chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0);
        if (a != 0 || (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ENOENT))
                model_fail("delete %d, value %d", world.results[0], a);
}

static void pre_died_value(const Value *v, uint32_t n_slabs) {
        pre_apart(v, n_slabs);
        model_cut(t1_delete);
        (void) shm_record_mark_dead(&world_arena, world_actor(1)->id);
        free_revoked_ready(n_slabs);
}

static void pre_died(void) {
        pre_died_value(&in_head, 4);
}

static void pre_died_in_two(void) {
        pre_died_value(&in_two, 3);
}

static void pre_died_in_blocks(void) {
        pre_died_value(&in_blocks, 6);
}

/* The value of another epoch stays. */
static void post_died_put(unsigned dead) {
        int a;

        check_revoked(dead | 2, dead & 4);
        a = chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0);
        if (!(dead & 1) && (a != 'x') != (world.results[0] == -ENOMEM))
                model_fail("put %d, value %d", world.results[0], a);
}

/*
 * Bytes that others leave where a block was name an object that is live, as by a chance of 2^-34.
 */
static uint64_t first_block(void) {
        ShmMapKey key = map_key(0);
        ShmTrieCursor c;
        ShmMapView view;

        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        return view.word ^ shm_leaf_seal(view.handle);
}

#define block world.notes[0]

static void pre_noted_names(void) {
        pre_noted(&in_blocks, 7);
        block = first_block();
}

static void t0_delete_name(void) {
        uint64_t handle;
        void *object;

        map_delete(0, 0);
        while (shm_object_alloc(world_actor(0), 64, 0, NULL, &handle, &object) == 0)
                for (unsigned i = 0; i < 3; i++)
                        /* ORDER: rlx; a step, with which those of others do not commute. */
                        shm_store_rlx((uint64_t *) object + i, victim ^ shm_leaf_seal(block));
}

static void post_names(unsigned dead) {
        map_repair(dead);
        if (!shm_object_live(&world_arena, victim))
                model_fail("another object is freed");
}

/* A damaged value: its first block is the next one, too. */
static void pre_loop(void) {
        uint64_t *words;

        pre(&in_blocks, 7, true, 0);
        block = first_block();
        words = shm_slot_address(&world_arena, shm_handle_slot(block), 0);
        words[2] = block ^ shm_leaf_seal(block);
        map_ready(7);
}

static void post_loop(unsigned dead) {
        map_repair(dead);
        if (!(dead & 2) && (world.results[1] != 0 || chain_get_by(&map_tries[MODEL_ACTORS_MAX], 0) != 0))
                model_fail("delete %d", world.results[1]);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "put-put", .pre = pre_none, .actors = { t0_put, t1_put },
          .post = post_put_put, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "replace-replace", .pre = pre_one, .actors = { t0_put, t1_put },
          .post = post_put_put, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-delete", .pre = pre_one, .actors = { t0_put, t1_delete },
          .post = post_put_delete, .deaths = 2, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-delete-in-blocks", .pre = pre_one_in_blocks, .actors = { t0_put, t1_delete },
          .post = post_put_delete, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-get", .pre = pre_one, .actors = { t0_put, t1_get },
          .post = post_put_get, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "put-get-in-blocks", .pre = pre_one_in_blocks, .actors = { t0_put, t1_get },
          .post = post_put_get, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "put-get-cached", .pre = pre_one_cached, .actors = { t0_put, t1_get },
          .post = post_put_get, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "put-full", .pre = pre_one_full, .actors = { t0_put, t1_get },
          .post = post_full, .deaths = 1, .preemptions = 1, .full_preemptions = 2, .weak = true },
        { .name = "put-over-handles", .pre = pre_none_handles, .actors = { t0_put, t1_get },
          .post = post_handles, .deaths = 1, .preemptions = 1, .full_preemptions = 1, .weak = true },
        { .name = "put-get-alloc", .pre = pre_one_tight, .actors = { t0_put, t1_get, t2_alloc },
          .post = post_put_get_alloc, .deaths = 0, .preemptions = 3, .full_preemptions = 3 },
        { .name = "put-get-alloc-in-blocks", .pre = pre_one_tight_in_blocks,
          .actors = { t0_put, t1_get, t2_alloc },
          .post = post_put_get_alloc, .deaths = 0, .preemptions = 2, .full_preemptions = 3 },
        { .name = "get-delete", .pre = pre_one_in_blocks, .actors = { t0_get, t1_delete },
          .post = post_delete_get, .deaths = 1, .preemptions = 2, .full_preemptions = 4, .weak = true },
        { .name = "put-revoke", .pre = pre_revoke, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "put-revoke-in-blocks", .pre = pre_revoke_in_blocks, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 1, .preemptions = 1, .full_preemptions = 3 },
        { .name = "put-revoke-cached", .pre = pre_revoke_cached, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-revoke-late", .pre = pre_revoke_late, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 0, .preemptions = 3, .full_preemptions = 3, .late = 2 },
        { .name = "put-revoke-in-blocks-late", .pre = pre_revoke_in_blocks_late, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 0, .preemptions = 3, .full_preemptions = 3, .late = 2,
          .full_only = true },
        { .name = "put-revoke-in-two-late", .pre = pre_revoke_in_two_late, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 0, .preemptions = 3, .full_preemptions = 3, .late = 2 },
        { .name = "put-revoke-cached-late", .pre = pre_revoke_cached_late, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 0, .preemptions = 2, .full_preemptions = 3, .late = 2 },
        { .name = "free-roll-back", .pre = pre_noted_in_head, .actors = { t0_delete_put, t1_roll_back },
          .post = post_rolled_back, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "free-roll-back-in-blocks", .pre = pre_noted_in_blocks, .actors = { t0_delete_put, t1_roll_back },
          .post = post_rolled_back, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "free-revoke", .pre = pre_free_revoke, .actors = { t0_delete, t_nothing, t2_repair_revoke },
          .post = post_free_revoke, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "free-revoke-in-blocks", .pre = pre_free_revoke_in_blocks,
          .actors = { t0_delete, t_nothing, t2_repair_revoke },
          .post = post_free_revoke, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "free-revoke-in-two", .pre = pre_free_revoke_in_two,
          .actors = { t0_delete, t_nothing, t2_repair_revoke },
          .post = post_free_revoke, .deaths = 1, .preemptions = 2, .full_preemptions = 3,
          .weak = true, .weak_preemptions = 1 },
        { .name = "died-free-revoke-in-two", .pre = pre_died_in_two,
          .actors = { t0_put, t_nothing, t2_repair_revoke },
          .post = post_died_put, .deaths = 0, .variants = true, .preemptions = 1, .full_preemptions = 2 },
        { .name = "died-free-revoke", .pre = pre_died, .actors = { t0_put, t_nothing, t2_repair_revoke },
          .post = post_died_put, .deaths = 0, .variants = true, .preemptions = 1, .full_preemptions = 1,
          .full_only = true },
        { .name = "died-free-revoke-in-blocks", .pre = pre_died_in_blocks,
          .actors = { t0_put, t_nothing, t2_repair_revoke },
          .post = post_died_put, .deaths = 0, .variants = true, .preemptions = 1, .full_preemptions = 1,
          .full_only = true },
        { .name = "put-put-in-two", .pre = pre_one_in_two, .actors = { t0_put, t1_put },
          .post = post_put_put, .deaths = 1, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-delete-in-two", .pre = pre_one_in_two, .actors = { t0_put, t1_delete },
          .post = post_put_delete, .deaths = 2, .preemptions = 1, .full_preemptions = 2 },
        { .name = "put-get-in-two", .pre = pre_one_in_two, .actors = { t0_put, t1_get },
          .post = post_put_get, .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
        { .name = "put-full-in-two", .pre = pre_one_full_in_two, .actors = { t0_put, t1_get },
          .post = post_full, .deaths = 1, .preemptions = 1, .full_preemptions = 2, .weak = true },
        { .name = "put-get-alloc-in-two", .pre = pre_one_tight_in_two, .actors = { t0_put, t1_get, t2_alloc },
          .post = post_put_get_alloc, .deaths = 0, .preemptions = 3, .full_preemptions = 3 },
        { .name = "get-delete-in-two", .pre = pre_one_in_two, .actors = { t0_get, t1_delete },
          .post = post_delete_get, .deaths = 1, .preemptions = 2, .full_preemptions = 4, .weak = true },
        { .name = "put-revoke-in-two", .pre = pre_revoke_in_two, .actors = { t0_put_1, t1_revoke },
          .post = post_revoke, .deaths = 1, .preemptions = 2, .full_preemptions = 3 },
        { .name = "free-roll-back-in-two", .pre = pre_noted_in_two, .actors = { t0_delete_put, t1_roll_back },
          .post = post_rolled_back, .deaths = 1, .preemptions = 2, .full_preemptions = 3,
          .weak = true, .weak_preemptions = 1 },
        { .name = "free-roll-back-alike", .pre = pre_noted_alike, .actors = { t0_delete_put, t1_roll_back },
          .post = post_rolled_back, .deaths = 1, .preemptions = 2, .full_preemptions = 3,
          .weak_full = true, .weak_preemptions = 1 },
        { .name = "free-roll-back-names", .pre = pre_noted_names, .actors = { t0_delete_name, t1_roll_back },
          .post = post_names, .deaths = 0, .preemptions = 2, .full_preemptions = 3 },
        { .name = "delete-loop", .pre = pre_loop, .actors = { t0_get, t1_delete },
          .post = post_loop, .deaths = 1, .preemptions = 1, .full_preemptions = 2, .weak = true },
};
/* clang-format on */
