/*
 * Claims at the same time as other claims, puts, deletes and touches, with deaths. One claim of a key stands at most,
 * and a replace in its name succeeds only while it does. Threads wait for claims: none may sleep for ever. Maps are
 * cleared at the same time, also while control repairs; control is actor 2 then. The clock is a word of the arena.
 */
#include "shm/arena/client.h"
#include "shm/arena/root.h"
#include "shm/map/entry/claim.h"
#include "shm/map/evict/evict-pass.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/map/state/wait.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "tests/model/map-world.h"

#define END 100U /* the end of the entry that is there before */
#define STALE 1000U
#define LIMIT 500U
#define OURS 1 /* the entry of all actors in the client table */

#define claim_before world.notes[0] /* there before; map_put() expects it */
#define claim_made world.notes[1] /* by actor 0 */
#define asleep world.objects[0].handle /* the word's value with which actor 0 sleeps; 0: it does not */

static uint64_t clock_ns(const ShmArena *arena) {
        return shm_load_rlx(&arena->header->expiry.unused[0]) * SHM_NS_PER_MS;
}

static void set_clock(uint64_t ms) {
        shm_store_rlx(&world_arena.header->expiry.unused[0], ms);
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

static void give_up(unsigned actor) {
        char value[8];
        const ShmMapClaim claim = { .gone = claim_before, .buffer = value, .buffer_size = sizeof(value) };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};

        world.results[actor] = shm_map_give_up(world_actor(actor), &map_tries[actor], &key, &claim, &claimed);
}

static void t0_give_up(void) {
        give_up(0);
}

static void t1_give_up(void) {
        give_up(1);
}

/* The hand has chosen the slot of the claim that was there before. */
static void t1_evict(void) {
        world.results[1] =
                shm_evict_slot(world_actor(1), &map_tries[1], shm_handle_slot(claim_before), 0) != 0;
}

/* It stands longer than until the clock is set to LIMIT. */
static void t0_extend(void) {
        const ShmMapClaim claim = { .limit_ms = 2 * LIMIT, .gone = claim_before, .extends = true };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};

        world.results[0] = shm_map_claim(world_actor(0), &map_tries[0], &key, &claim, &claimed);
        claim_made = claimed.version;
}

static void t1_extend(void) {
        const ShmMapClaim claim = { .limit_ms = LIMIT, .gone = claim_before, .extends = true };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};

        world.results[1] = shm_map_claim(world_actor(1), &map_tries[1], &key, &claim, &claimed);
}

/* The time of the claim that was there before is over. */
static void t1_claim_late(void) {
        set_clock(LIMIT);
        claim(1);
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

/* As libclient/waiter.c does when it has looked at the claim before: the word has had this value since. */
static void t0_poll(void) {
        ShmMapKey key = map_key(0);
        uint32_t *word = shm_wait_word(&map_tries[0], key.hash);
        uint32_t kept = *word, value;
        ShmClaim c;

        value = shm_wait_begin(shm_wait_polled(&world_arena));
        if (shm_wait_begin(word) == kept || shm_map_find_claim(&map_tries[0], &key, claim_before, &c) == 1)
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

static void init_in(uint32_t n_slabs) {
        map_init(n_slabs, 0, MAP_HASH, MAP_HASH_FAR, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = clock_ns;
        set_clock(0);
        enter_process(7);
}

static void init(void) {
        init_in(1);
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

static void name_map(void) {
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].map = shm_map_index(&world_arena, map_root) + 1;
}

static void init_named(void) {
        init();
        name_map();
}

/* Threads wait on words of the map's state: the map has a name. */
static void pre_wait(void) {
        init_named();
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim_before));
        map_ready(1);
}

static void pre_poll(void) {
        pre_wait();
        (void) shm_wait_begin(shm_wait_word(&map_tries[MODEL_ACTORS_MAX], map_key(0).hash));
}

static void end_entry(void) {
        ShmMapPut p = { .mode = SHM_MAP_PUT, .value = "o", .value_size = 1, .ttl_ms = END };
        ShmMapKey key = map_key(0);

        TRIE_SET_OPTION(&map_tries[0], stale_ms, STALE);
        map_must(shm_map_put(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &key, &p, NULL));
}

static void pre_end(void) {
        init_named();
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

/* The entry is over, its value is stale, and its key is claimed. */
static void pre_stale_claimed(void) {
        init_named();
        end_entry();
        set_clock(END);
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim_before));
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

/* A claim that was given up has the stale value. */
static void pre_given_up(void) {
        char value[8];
        ShmMapClaim claim = { .buffer = value, .buffer_size = sizeof(value) };
        ShmClaimed claimed = {};
        ShmMapKey key;

        init_named();
        key = map_key(0);
        end_entry();
        set_clock(END);
        map_must(claim_as(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &claim.gone));
        map_must(shm_map_give_up(&world_actors[1], &map_tries[MODEL_ACTORS_MAX], &key, &claim, &claimed));
        claim_before = linked_claim();
        map_ready(1);
}

static char get_stale_by(const ShmTrie *trie) {
        ShmMapKey key = map_key(0);
        ShmMapView view;
        char value[8];

        return shm_map_get_stale(trie, &key, value, sizeof(value), &view) == 1 ? value[0] : 0;
}

static char get_stale(void) {
        return get_stale_by(&map_tries[MODEL_ACTORS_MAX]);
}

static void t0_get_stale(void) {
        world.results[0] = get_stale_by(&map_tries[0]);
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

static void check_keys(unsigned dead, unsigned n_keys) {
        map_repair(dead);
        map_check(n_keys, has_absent_leaf());
}

static void check(unsigned dead) {
        check_keys(dead, 1);
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

/* A claim that was deleted is not extended, and an extended one is deleted. */
static void post_extend_delete(unsigned dead) {
        int x = world.results[0];

        if (!(dead & 1) && x != 0 && x != -ENOENT)
                model_fail("extend: %d", x);
        if (!(dead & 2) && linked_claim() != 0)
                model_fail("a claim is there after the delete");
        check(dead);
}

/* One of them succeeds: the other's version is no more. */
static void post_extend_fulfil(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == -EAGAIN) || (x == -ENOENT && y == 0)))
                model_fail("extend %d, replace %d", x, y);
        if (!(dead & 1) && x == 0 && linked_claim() != claim_made)
                model_fail("the extended claim is lost");
        if (!(dead & 2) && y == 0 && map_get(0) != 'y')
                model_fail("the value is lost");
        check(dead);
}

/* A claim whose time is over is extended, or another's. */
static void post_extend_claim(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == -EBUSY) || (x == -ENOENT && y == 0)))
                model_fail("extend %d, claim %d", x, y);
        if (!(dead & 1) && x == 0 && linked_claim() != claim_made)
                model_fail("the extended claim is lost");
        if ((x == 0 || y == 0) && (linked_claim() == 0 || linked_claim() == claim_before))
                model_fail("the new claim is lost");
        check(dead);
}

/* The stale value is there all the time, and another thread may claim the key afterwards. */
static void post_give_up_claim(unsigned dead) {
        uint64_t linked = linked_claim();
        int x = world.results[0], y = world.results[1];

        if (get_stale() != 'o')
                model_fail("the stale value is lost");
        if (!(dead & 1) && (x != 0 || linked == claim_before))
                model_fail("give up: %d", x);
        if (!(dead & 2) && y != 0 && y != -EBUSY)
                model_fail("claim: %d", y);
        if (!(dead & 2) && y == 0 && (linked == 0 || linked == claim_before))
                model_fail("the other claim is lost");
        check(dead);
}

/* Nor does a get miss it. */
static void post_get_give_up(unsigned dead) {
        if (!(dead & 1) && world.results[0] != 'o')
                model_fail("got %d", world.results[0]);
        if (get_stale() != 'o')
                model_fail("the stale value is lost");
        check(dead);
}

/* A claim that stands is not evicted, also while it is given up. */
static void post_give_up_evict(unsigned dead) {
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("give up: %d", world.results[0]);
        if (get_stale() != 'o')
                model_fail("the stale value is lost");
        check(dead);
}

/* One that has ended is, once. A get finds its value, or none. */
static void post_get_evict(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (!(dead & 1) && x != 'o' && x != 0)
                model_fail("got %d", x);
        if (!(dead & 2) && (y != 1 || get_stale() != 0))
                model_fail("evicted %d, value %d", y, get_stale());
        check(dead);
}

/* The new claim stays, with the stale value or without. */
static void post_claim_evict(unsigned dead) {
        uint64_t linked = linked_claim();

        if (!(dead & 1) && (world.results[0] != 0 || linked != claim_made))
                model_fail("claim: %d", world.results[0]);
        if (!(dead & 2) && linked == claim_before)
                model_fail("the claim that has ended is there still");
        check(dead);
}

/* A delete takes the stale value, too: it does not come back. */
static void post_give_up_delete(unsigned dead) {
        int x = world.results[0];

        if (!(dead & 1) && x != 0 && x != -ENOENT)
                model_fail("give up: %d", x);
        if (!(dead & 2) && (world.results[1] != -ENOENT || get_stale() != 0))
                model_fail("delete: %d", world.results[1]);
        check(dead);
}

/* Either the claim is given up, or it is fulfilled. */
static void post_give_up_fulfil(unsigned dead) {
        int x = world.results[0], y = world.results[1];

        if (dead == 0 && !((x == 0 && y == -EAGAIN) || (x == -EAGAIN && y == 0)))
                model_fail("give up %d, replace %d", x, y);
        if (!(dead & 2) && (map_get(0) == 'y') != (y == 0))
                model_fail("replace %d, value %d", y, map_get(0));
        if (get_stale() == 0)
                model_fail("neither value is there");
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

static void post_poll(unsigned dead) {
        if (!(dead & 3) && asleep == *shm_wait_polled(&world_arena))
                model_fail("nobody wakes actor 0");
        check(dead);
}

/*
 * Clearing
 */
static void clear(unsigned actor) {
        ShmTrieScan scan = {};
        ssize_t n = 0, k = 0;

        while (k >= 0 && !scan.done) {
                k = shm_map_expire(world_actor(actor), &map_tries[actor], SHM_MAP_EPOCH_ALL, &scan, 4);
                n += k;
        }
        world.results[actor] = (int) (k < 0 ? k : n);
}

static void t0_clear(void) {
        clear(0);
}

static void t1_clear(void) {
        clear(1);
}

static void t1_clear_after(void) {
        set_clock(END);
        clear(1);
}

static void t0_put_1(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 1);
}

static void init_two(void) {
        init_in(3);
        name_map();
        map_entry(0, 'o', 0);
        map_entry(1, 'b', 1);
}

static void pre_two(void) {
        init_two();
        map_ready(3);
}

/* The entry is over; its value is stale for long. */
static void pre_stale(void) {
        pre_pass();
        set_clock(END);
        map_ready(1);
}

static void pre_absent_named(void) {
        init_named();
        map_ready(1);
}

/* Actor 0 died in front of each of its accesses in turn, and is repaired. */
static void pre_died(void (*operation)(void)) {
        init_two();
        model_cut(operation);
        (void) shm_record_mark_dead(&world_arena, world_actor(0)->id);
        control_init();
        map_ready(3);
}

static void pre_died_put(void) {
        pre_died(t0_put_1);
}

static void pre_died_clear(void) {
        pre_died(t0_clear);
}

static void t0_delete_claim(void) {
        map_delete(0, 0);
        claim(0);
}

static void pre_died_claim(void) {
        pre_died(t0_delete_claim);
}

static void t2_repair(void) {
        control_repair();
}

/* All that was there before goes, and `n` entries. Of a, a value that is put meanwhile may be missed. */
static void check_clear(unsigned dead, int n, char new) {
        ShmMapTotals totals;
        char a = map_get(0);
        ssize_t n_counted;

        if (!(dead & 2) && world.results[1] != n)
                model_fail("cleared %d, result %d", world.results[1], world.results[0]);
        if (!(dead & 2) && a != 0 && a != new)
                model_fail("a is %d, result %d", a, world.results[0]);
        if (!(dead & 2) && map_get(1) != 0)
                model_fail("b is there");
        check_keys(dead, 2);
        shm_map_totals(&world_arena, map_tries[0].map - 1, &totals);
        n_counted = shm_map_count(&map_tries[MODEL_ACTORS_MAX]) + has_absent_leaf();
        if (dead == 0 && totals.entries != (uint64_t) n_counted)
                model_fail("%lu entries are counted", (unsigned long) totals.entries);
}

/* One of two values of a goes. */
static void post_clear_put(unsigned dead) {
        check_clear(dead, 2, 'x');
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("put: %d", world.results[0]);
}

static void repair_control(unsigned dead) {
        ShmRepairCounts counts;

        if (dead & 4)
                shm_repair_control(&world_actors[0], &work.reach, &counts);
}

static void post_clear_repair(unsigned dead) {
        repair_control(dead);
        check_clear(dead | 1, 2, 0);
}

/* The entry may have been deleted before. */
static void post_clear_repair_claim(unsigned dead) {
        if (!(dead & 2) && (linked_claim() != 0 || (world.results[1] != 1 && world.results[1] != 2)))
                model_fail("cleared %d", world.results[1]);
        repair_control(dead);
        check_clear(dead | 1, world.results[1], 0);
}

static void post_put_repair(unsigned dead) {
        char a = map_get(0);

        if (!(dead & 2) && (world.results[1] != 0 || a != 'y'))
                model_fail("put: %d, value %d", world.results[1], a);
        repair_control(dead);
        check_keys(dead | 1, 2);
}

/* Each entry goes once. */
static void post_clear_clear(unsigned dead) {
        if (dead == 0)
                check_clear(dead, 2 - world.results[0], 0);
        else
                check_clear(dead | 2, 0, 0);
}

static void post_clear_claim(unsigned dead) {
        uint64_t linked = linked_claim();

        if (!(dead & 1) && (world.results[0] != 0 || (linked != 0 && linked != claim_made)))
                model_fail("claim: %d", world.results[0]);
        check_clear(dead, 0, 0);
}

/* A claim that was there before goes, or the value goes that fulfilled it. */
static void post_clear_fulfil(unsigned dead) {
        int x = world.results[0];

        if (!(dead & 2) && linked_claim() != 0)
                model_fail("the claim is there");
        if (!(dead & 1) && x != 0 && x != -EAGAIN)
                model_fail("replace: %d", x);
        check_clear(dead & 1 ? dead | 2 : dead, x == 0, 0);
}

static void post_clear_touch(unsigned dead) {
        int x = world.results[0];

        if (!(dead & 1) && x != 0 && x != -ENOENT)
                model_fail("touch: %d", x);
        if (!(dead & 2) && get_stale() != 0)
                model_fail("a stale value is there");
        check_clear(dead & 1 ? dead | 2 : dead, x == 0, 0);
}

/* A claim that was made meanwhile may be missed, but keeps no value of before. */
static void post_clear_stale(unsigned dead) {
        if (!(dead & 2) && get_stale() != 0)
                model_fail("a stale value is there");
        post_clear_claim(dead);
}

static void post_clear_get(unsigned dead) {
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != 'o')
                model_fail("got %d", world.results[0]);
        check_clear(dead, 0, 0);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "claim-claim", .pre = pre_absent, .actors = { t0_claim, t1_claim },
          .post = post_claim_claim, .deaths = 2, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "claim-claim-dead", .pre = pre_dead_claim, .actors = { t0_claim, t1_claim },
          .post = post_claim_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-put", .pre = pre_absent, .actors = { t0_claim, t1_put },
          .post = post_claim_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "claim-delete", .pre = pre_absent, .actors = { t0_claim, t1_delete },
          .post = post_claim_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "fulfil-delete", .pre = pre_claimed, .actors = { t0_fulfil, t1_delete },
          .post = post_fulfil_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "fulfil-claim", .pre = pre_claimed, .actors = { t0_fulfil, t1_claim_as_other },
          .post = post_fulfil_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "extend-delete", .pre = pre_claimed, .actors = { t0_extend, t1_delete },
          .post = post_extend_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "extend-fulfil", .pre = pre_claimed, .actors = { t0_extend, t1_fulfil },
          .post = post_extend_fulfil, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "extend-claim", .pre = pre_claimed, .actors = { t0_extend, t1_claim_late },
          .post = post_extend_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "wait-extend", .pre = pre_wait, .actors = { t0_wait, t1_extend },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "give-up-claim", .pre = pre_stale_claimed, .actors = { t0_give_up, t1_claim },
          .post = post_give_up_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "give-up-delete", .pre = pre_stale_claimed, .actors = { t0_give_up, t1_delete },
          .post = post_give_up_delete, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "give-up-fulfil", .pre = pre_stale_claimed, .actors = { t0_give_up, t1_fulfil },
          .post = post_give_up_fulfil, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "get-give-up", .pre = pre_stale_claimed, .actors = { t0_get_stale, t1_give_up },
          .post = post_get_give_up, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "give-up-evict", .pre = pre_stale_claimed, .actors = { t0_give_up, t1_evict },
          .post = post_give_up_evict, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "get-evict", .pre = pre_given_up, .actors = { t0_get_stale, t1_evict },
          .post = post_get_evict, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "claim-evict", .pre = pre_given_up, .actors = { t0_claim, t1_evict },
          .post = post_claim_evict, .deaths = 2, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "touch-claim", .pre = pre_end, .actors = { t0_touch, t1_claim_after },
          .post = post_touch_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "claim-pass", .pre = pre_pass, .actors = { t0_claim, t1_pass_after },
          .post = post_claim_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "claim-walk", .pre = pre_pass, .actors = { t0_claim, t1_pass_after }, .post = post_claim_pass,
          .preemptions = 1, .full_preemptions = 1, .full_only = true, .weak = true },
        { .name = "fulfil-pass", .pre = pre_wait, .actors = { t0_fulfil, t1_pass_after },
          .post = post_fulfil_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "wait-fulfil", .pre = pre_wait, .actors = { t0_wait, t1_fulfil },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "poll-fulfil", .pre = pre_poll, .actors = { t0_poll, t1_fulfil },
          .post = post_poll, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "poll-delete", .pre = pre_poll, .actors = { t0_poll, t1_delete },
          .post = post_poll, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "wait-delete", .pre = pre_wait, .actors = { t0_wait, t1_delete },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "wait-give-up", .pre = pre_stale_claimed, .actors = { t0_wait, t1_give_up },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "wait-claim", .pre = pre_wait, .actors = { t0_wait, t1_claim_as_other },
          .post = post_wait, .deaths = 1, .preemptions = 3, .full_preemptions = 5, .weak = true },
        { .name = "clear-put", .pre = pre_two, .actors = { t0_put_1, t1_clear },
          .post = post_clear_put, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "clear-clear", .pre = pre_two, .actors = { t0_clear, t1_clear },
          .post = post_clear_clear, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "clear-claim", .pre = pre_absent_named, .actors = { t0_claim, t1_clear },
          .post = post_clear_claim, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "clear-fulfil", .pre = pre_wait, .actors = { t0_fulfil, t1_clear },
          .post = post_clear_fulfil, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "clear-touch", .pre = pre_end, .actors = { t0_touch, t1_clear_after },
          .post = post_clear_touch, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "clear-claim-stale", .pre = pre_stale, .actors = { t0_claim, t1_clear },
          .post = post_clear_stale, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "clear-get-stale", .pre = pre_stale, .actors = { t0_get_stale, t1_clear },
          .post = post_clear_get, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "clear-repair", .pre = pre_died_put, .actors = { t_nothing, t1_clear, t2_repair },
          .post = post_clear_repair, .deaths = 0, .variants = true, .preemptions = 1, .full_preemptions = 2 },
        { .name = "clear-repair-claim", .pre = pre_died_claim, .actors = { t_nothing, t1_clear, t2_repair },
          .post = post_clear_repair_claim, .deaths = 0, .variants = true, .preemptions = 2, .full_preemptions = 3 },
        { .name = "put-repair-clear", .pre = pre_died_clear, .actors = { t_nothing, t1_put, t2_repair },
          .post = post_put_repair, .deaths = 0, .variants = true, .preemptions = 2, .full_preemptions = 3 },
};
/* clang-format on */
