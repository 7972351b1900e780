/*
 * Tags: an entry is put, and its tag invalidated, by several threads that may die. After an invalidation that ended no
 * entry is found that was put with what the tag was before it; and no memory is lost.
 */
#include "shm/arena/root.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/tag.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/unlink.h"
#include "tests/model/map-world.h"

#define HASH_TAG (UINT64_C(1) << 61)
#define HASH_C (UINT64_C(2) << 61)

static uint64_t ms_zero(const ShmArena *arena) {
        (void) arena;
        return (UINT64_C(1) << 30) * SHM_NS_PER_MS;
}

static ShmMapKey tag_key(void) {
        return (ShmMapKey){ "t", 1, HASH_TAG };
}

static int make_tag(ShmActor *actor, const ShmTrie *trie, uint64_t *ret) {
        ShmMapKey key = tag_key();

        return shm_map_tag(actor, trie, &key, 0, ret);
}

static int put_tagged(ShmActor *actor, const ShmTrie *trie, char value, uint64_t tag) {
        ShmMapPut p = { .value = &value, .value_size = 1, .epoch = 0, .tags = &tag, .n_tags = 1 };
        ShmMapKey key = map_key(0);

        return shm_map_put(actor, trie, &key, &p, NULL);
}

static void init(void) {
        map_init(4, 0, MAP_HASH, HASH_TAG, HASH_C);
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++) {
                map_tries[i].now_ns = ms_zero;
                shm_map_attach(&map_tries[i]);
        }
}

/* No tag is there. */
static void pre_none(void) {
        init();
        map_ready(4);
}

static void pre_tagged(void) {
        uint64_t tag = 0;

        init();
        map_must(make_tag(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], &tag));
        map_must(put_tagged(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], 'a', tag));
        map_ready(4);
}

/* The tag is what it was before the put. */
static void t0_put(void) {
        uint64_t tag = 0;

        world.results[0] = make_tag(world_actor(0), &map_tries[0], &tag);
        if (world.results[0] == 0)
                world.results[0] = put_tagged(world_actor(0), &map_tries[0], 'x', tag);
}

/* The entry's leaf is `leaf`. */
#define leaf world.notes[0]

static void pre_tagged_leaf(void) {
        ShmTrieCursor c;
        ShmMapView view;
        ShmMapKey key;

        pre_tagged();
        key = map_key(0);
        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        leaf = view.handle;
}

static void t1_pass(void) {
        while (!shm_expiry_step(world_actor(1), ms_zero(&world_arena) / SHM_NS_PER_MS, 1))
                ;
}

static void invalidate(unsigned actor) {
        ShmMapKey key = tag_key();

        world.results[actor] = shm_map_invalidate(world_actor(actor), &map_tries[actor], &key);
}

static void t1_invalidate(void) {
        invalidate(1);
}

static void t0_invalidate(void) {
        invalidate(0);
}

/* When it returns, the entry of before is absent, whatever another invalidation is doing. */
static void t1_invalidate_get(void) {
        invalidate(1);
        if ((world.results[1] == 0 || world.results[1] == -ENOENT) && map_get_by(&map_tries[1], 0) == 'a')
                model_fail("a is there after an invalidation, %d", world.results[1]);
}

/* The tag is evicted, or ends, as far as its leaf is concerned. */
static void t0_drop_tag(void) {
        ShmMapKey key = tag_key();
        ShmTrieCursor c;
        ShmMapView view;

        world.results[0] = shm_map_find(&map_tries[0], &key, &c, &view);
        if (world.results[0] == 0)
                world.results[0] =
                        shm_map_unlink(world_actor(0), &map_tries[0], &view, &c, SHM_MAP_EVICTIONS);
}

/* Makes the tag anew, where it is gone. */
static void t0_tag(void) {
        uint64_t tag = 0;

        world.results[0] = make_tag(world_actor(0), &map_tries[0], &tag);
}

/* No slot is lost. A tag that was freed may still be linked. */
static void check(unsigned dead) {
        map_repair(dead);
        (void) map_check_slots();
        if (map_get_by(&map_tries[MODEL_ACTORS_MAX], 0) < 0)
                model_fail("get: %d", map_get_by(&map_tries[MODEL_ACTORS_MAX], 0));
}

static void post(unsigned dead) {
        check(dead);
}

/* A pass has taken the entry whose tag is gone, or the next one is to. */
static void post_passed(unsigned dead) {
        check(dead);
        if (!dead && world.results[0] == 0 && shm_load_rlx(&world_arena.header->expiry.invalidated) == 0 &&
            shm_object_live(&world_arena, leaf))
                model_fail("an entry without its tag is there, and no pass looks at it");
}

/* An invalidation by the last process makes the entry absent, whoever died before. */
static void post_again(unsigned dead) {
        ShmMapKey key = tag_key();
        int r;

        check(dead);
        r = shm_map_invalidate(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], &key);
        if ((r != 0 && r != -ENOENT) || map_get_by(&map_tries[MODEL_ACTORS_MAX], 0) != 0)
                model_fail("invalidate: %d, get: %d", r, map_get_by(&map_tries[MODEL_ACTORS_MAX], 0));
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "put-invalidate", .pre = pre_none, .actors = { t0_put, t1_invalidate }, .post = post_again,
          .deaths = 2 },
        { .name = "put-invalidate-tagged", .pre = pre_tagged, .actors = { t0_put, t1_invalidate_get }, .post = post,
          .deaths = 2 },
        { .name = "invalidate-invalidate", .pre = pre_tagged, .actors = { t0_invalidate, t1_invalidate_get },
          .post = post_again, .deaths = 2 },
        { .name = "tag-invalidate", .pre = pre_tagged, .actors = { t0_tag, t1_invalidate_get }, .post = post_again,
          .deaths = 2 },
        { .name = "drop-invalidate", .pre = pre_tagged, .actors = { t0_drop_tag, t1_invalidate_get },
          .post = post_again, .deaths = 2 },
        { .name = "invalidate-pass", .pre = pre_tagged_leaf, .actors = { t0_invalidate, t1_pass }, .post = post_passed,
          .deaths = 1, .preemptions = 2, .full_preemptions = 3, .weak = true },
};
/* clang-format on */
