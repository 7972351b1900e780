/*
 * Claims beside each other, beside puts, deletes and touches, with deaths; and threads that wait for them: none may
 * sleep for ever. The clock is a word of the arena.
 */
#include "shm/arena/client.h"
#include "shm/arena/root.h"
#include "shm/map/claim.h"
#include "shm/map/expiry.h"
#include "shm/map/lifetime.h"
#include "shm/map/trie-walk.h"
#include "shm/map/wait.h"
#include "tests/model/map-world.h"

#define END 100U /* the end of the entry that is there before */
#define STALE 1000U
#define LIMIT 500U
#define OURS 1 /* the entry of all actors in the client table */

#define claim_before world.notes[0] /* there before; map_put() expects it */
#define claim_made world.notes[1] /* by actor 0 */
#define asleep world.objects[0].handle /* the word's value with which actor 0 sleeps; 0: it does not */

static uint64_t clock_ns(const ShmArena *arena) {
        return shm_load_rlx(&arena->header->expiry.boot_offset_ms) * SHM_NS_PER_MS;
}

static void set_clock(uint64_t ms) {
        shm_store_rlx(&world_arena.header->expiry.boot_offset_ms, ms);
}

static int claim_as(ShmActor *actor, const ShmTrie *trie, uint64_t *ret_version) {
        char value[8];
        const ShmMapClaim claim = { .limit_ms = LIMIT, .buffer = value, .buffer_size = sizeof(value) };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};
        int r;

        r = shm_map_claim(actor, trie, &key, &claim, &claimed);
        *ret_version = claimed.version;
        return r;
}

static void claim(unsigned actor) {
        uint64_t version;

        world.results[actor] = claim_as(world_actor(actor), &map_tries[actor], &version);
        if (actor == 0 && world.results[0] == 0)
                claim_made = version;
}

static void t0_claim(void) {
        claim(0);
}

static void t1_claim(void) {
        claim(1);
}

static void t1_put(void) {
        map_put(1, 0, 'y', SHM_MAP_PUT, 0);
}

static void t0_fulfil(void) {
        map_put(0, 0, 'x', SHM_MAP_REPLACE, 0);
}

static void t1_fulfil(void) {
        map_put(1, 0, 'y', SHM_MAP_REPLACE, 0);
}

static void t1_delete(void) {
        map_delete(1, 0);
}

static void t0_touch(void) {
        ShmMapKey key = map_key(0);

        world.results[0] = shm_map_touch(world_actor(0), &map_tries[0], &key, 2 * END);
}

static void t1_claim_after(void) {
        set_clock(END);
        claim(1);
}

/* All that is there before is over by then, also a stale value. */
static void t1_pass_after(void) {
        set_clock(END + STALE);
        while (!shm_expiry_step(world_actor(1), END + STALE, 1))
                ;
}

/* As libclient/map-claim.c does. */
static void t0_wait(void) {
        ShmMapKey key = map_key(0);
        uint32_t *word = shm_wait_word(&map_tries[0], key.hash), value;
        ShmClaim c;

        value = shm_wait_begin(word);
        if (shm_map_find_claim(&map_tries[0], &key, claim_before, &c) == 1)
                asleep = value;
}

static void t1_claim_as_other(void) {
        const ShmMapClaim claim = { .limit_ms = LIMIT, .gone = claim_before };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};

        world.results[1] = shm_map_claim(world_actor(1), &map_tries[1], &key, &claim, &claimed);
}

static void enter_process(pid_t pid) {
        ShmClientInfo info = { .pid = pid };

        do
                map_must(shm_client_add(&world_arena, &info));
        while (info.index < OURS);
}

static void init(void) {
        map_init(1, 0, MAP_HASH, MAP_HASH_FAR, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = clock_ns;
        set_clock(0);
        enter_process(7);
}

static void pre_absent(void) {
        init();
        map_ready(1);
}

static void pre_claimed(void) {
        init();
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim_before));
        map_ready(1);
}

static void pre_dead_claim(void) {
        init();
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim_before));
        shm_client_end(&world_arena, OURS);
        shm_client_remove(&world_arena, OURS);
        enter_process(8);
        map_ready(1);
}

static void init_named(void) {
        init();
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].map = shm_map_index(&world_arena, map_root) + 1;
}

/* Threads wait on words of the map's state: the map has a name. */
static void pre_wait(void) {
        init_named();
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim_before));
        map_ready(1);
}

static void end_entry(void) {
        ShmMapPut p = { .mode = SHM_MAP_PUT, .value = "o", .value_size = 1, .ttl_ms = END };
        ShmMapKey key = map_key(0);

        TRIE_SET_OPTION(&map_tries[0], stale_ms, STALE);
        map_must(shm_map_put(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &key, &p, NULL));
}

static void pre_end(void) {
        init();
        end_entry();
        map_ready(1);
}

/* The entry is over, and its value stale for a moment more. */
static void pre_pass(void) {
        init_named();
        end_entry();
        set_clock(END + STALE - 1);
        map_ready(1);
}

/* The claim that is linked; 0: none. */
static uint64_t linked_claim(void) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        ShmTrieCursor c;

        if (shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view) != 0)
                return 0;
        return view.head.flags & SHM_LEAF_CLAIM ? view.handle : 0;
}

static char get_stale(void) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        char value[8];

        return shm_map_get_stale(&map_tries[MODEL_ACTORS_MAX], &key, value, sizeof(value), &view) == 1
                       ? value[0]
                       : 0;
}

/* A claim, or an expired entry. After a death its end may not be noted: a count of the map does that. */
static bool has_absent_leaf(void) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        ShmTrieCursor c;

        if (shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view) != 0 || !view.is_over)
                return false;
        shm_expiry_note(&world_arena, view.handle, view.expires);
        return true;
}

static void check(unsigned dead) {
        map_repair(dead);
        map_check(1, has_absent_leaf());
}

/* One of them has it, whoever dies. */
static void post_claim_claim(unsigned dead) {
        uint64_t linked = linked_claim();
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == -EBUSY) || (x == -EBUSY && y == 0)))
                model_fail("claims %d and %d", x, y);
        if ((x == 0 || y == 0) && linked == 0)
                model_fail("the claim is lost");
        if (linked != 0 && linked == claim_before)
                model_fail("the claim of the dead process is there still");
        if (x == 0 && claim_made != linked)
                model_fail("actor 0 has another claim");
        check(dead);
}

/* A put is not lost, and what was claimed before it is no more. */
static void post_claim_put(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        char a = map_get(0);

        if (!(dead & 1) && x != 0 && x != -EEXIST)
                model_fail("claim: %d", x);
        if (!(dead & 2) && (y != 0 || a != 'y'))
                model_fail("put: %d, value %d", y, a);
        check(dead);
}

static void post_claim_delete(unsigned dead) {
        uint64_t linked = linked_claim();

        if (!(dead & 1) && world.results[0] != 0)
                model_fail("claim: %d", world.results[0]);
        if (!(dead & 2) && world.results[1] != -ENOENT)
                model_fail("delete: %d", world.results[1]);
        if (linked != 0 && !(dead & 1) && linked != claim_made)
                model_fail("another claim");
        check(dead);
}

/* A replace after the delete is refused. */
static void post_fulfil_delete(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == 0) || (x == -EAGAIN && y == -ENOENT)))
                model_fail("replace %d, delete %d", x, y);
        if (!(dead & 2) && (map_get(0) != 0 || linked_claim() != 0))
                model_fail("something is there after the delete");
        check(dead);
}

/* The same for a process that took the claim over. */
static void post_fulfil_claim(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == -EEXIST) || (x == -EAGAIN && y == 0)))
                model_fail("replace %d, claim %d", x, y);
        if (!(dead & 2) && y == 0 && (linked_claim() == 0 || linked_claim() == claim_before))
                model_fail("the claim is lost");
        check(dead);
}

/* A touch that was done prolongs the entry; else the value is there as a stale one, whoever dies. */
static void post_touch_claim(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        bool touched = map_get(0) == 'o';

        if (!(dead & 2) && !(y == 0 && x != 0) && !(y == -EEXIST && x != -ENOENT))
                model_fail("touch %d, claim %d", x, y);
        if (get_stale() != 'o')
                model_fail("the stale value is lost");
        if (!(dead & 1) && x == 0 && !touched)
                model_fail("the touch is lost");
        check(dead);
}

/* A pass takes what is over alone: a claim that stands stays, and a value. */
static void post_claim_pass(unsigned dead) {
        uint64_t linked = linked_claim();

        if (!(dead & 1) && (world.results[0] != 0 || linked != claim_made))
                model_fail("claim: %d", world.results[0]);
        check(dead);
}

static void post_fulfil_pass(unsigned dead) {
        int x = world.results[0];
        char a = map_get(0);

        if (!(dead & 1) && !(x == 0 && a == 'x') && !(x == -EAGAIN && a == 0))
                model_fail("replace %d, value %d", x, a);
        check(dead);
}

/* The kernel compares the word once more: a thread that finds it as it was sleeps until the word is changed. */
static void post_wait(unsigned dead) {
        uint32_t word = *shm_wait_word(&map_tries[MODEL_ACTORS_MAX], map_key(0).hash);

        if (!(dead & 2) && world.results[1] != 0 && world.results[1] != -ENOENT)
                model_fail("the claim is not taken away: %d", world.results[1]);
        if (!(dead & 3) && asleep == word)
                model_fail("nobody wakes actor 0");
        check(dead);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "claim-claim", .pre = pre_absent, .actors = { t0_claim, t1_claim },
          .post = post_claim_claim, .deaths = 2, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-claim-dead", .pre = pre_dead_claim, .actors = { t0_claim, t1_claim },
          .post = post_claim_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-put", .pre = pre_absent, .actors = { t0_claim, t1_put },
          .post = post_claim_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-delete", .pre = pre_absent, .actors = { t0_claim, t1_delete },
          .post = post_claim_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "fulfil-delete", .pre = pre_claimed, .actors = { t0_fulfil, t1_delete },
          .post = post_fulfil_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "fulfil-claim", .pre = pre_claimed, .actors = { t0_fulfil, t1_claim_as_other },
          .post = post_fulfil_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "touch-claim", .pre = pre_end, .actors = { t0_touch, t1_claim_after },
          .post = post_touch_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-pass", .pre = pre_pass, .actors = { t0_claim, t1_pass_after },
          .post = post_claim_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "fulfil-pass", .pre = pre_wait, .actors = { t0_fulfil, t1_pass_after },
          .post = post_fulfil_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "wait-fulfil", .pre = pre_wait, .actors = { t0_wait, t1_fulfil },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5 },
        { .name = "wait-delete", .pre = pre_wait, .actors = { t0_wait, t1_delete },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5 },
        { .name = "wait-claim", .pre = pre_wait, .actors = { t0_wait, t1_claim_as_other },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5 },
};
/* clang-format on */
