/* Lifetimes of entries, counters and rate limits, in one thread and on a clock of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/arena/root.h"
#include "shm/cache/cache.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"
#include "tests/unit/shm/map-fixture.h"
#include "shm/epoch/epoch-open.h"
#include "tests/api/entry-cost.h"
#include "tests/util/map-options.h"

#define BEGIN_MS (UINT64_C(1) << 40) /* later than any clock of the system */

typedef MapFixture Fixture;

static uint64_t clock_ms, late_ms; /* the clock of ticks is behind by this */
static uint64_t held_ms; /* a thread is held up so long, right after it read the exact time */

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return (clock_ms - late_ms) * SHM_NS_PER_MS;
}

static uint64_t exact_ns(const ShmArena *arena) {
        uint64_t ns = clock_ms * SHM_NS_PER_MS;

        (void) arena;
        clock_ms += held_ms;
        return ns;
}

static int setup(void **state) {
        Fixture *f;

        clock_ms = BEGIN_MS;
        late_ms = 0;
        held_ms = 0;
        (void) map_setup(state);
        f = *state;
        f->trie.now_ns = clock_ns;
        f->trie.exact_ns = exact_ns;
        return 0;
}

static ShmMapKey key_of(Fixture *f, const char *text) {
        return (ShmMapKey){ text, (uint32_t) strlen(text), shm_hash(&f->arena, text, strlen(text)) };
}

static int put_mode(Fixture *f, const char *key, const char *value, uint64_t ttl_ms, ShmMapMode mode,
                    uint64_t expected) {
        ShmMapKey k = key_of(f, key);
        ShmMapPut p = {
                .mode = mode,
                .expected = expected,
                .value = value,
                .value_size = (uint32_t) strlen(value),
                .epoch = SHM_EPOCH_CURRENT,
                .ttl_ms = ttl_ms,
        };

        return shm_map_put(&f->actor, &f->trie, &k, &p, NULL);
}

static int put(Fixture *f, const char *key, const char *value, uint64_t ttl_ms) {
        return put_mode(f, key, value, ttl_ms, SHM_MAP_PUT, 0);
}

static int touch(Fixture *f, const char *key, uint64_t ttl_ms) {
        ShmMapKey k = key_of(f, key);

        return shm_map_touch(&f->actor, &f->trie, &k, ttl_ms);
}

static int delete (Fixture *f, const char *key) {
        ShmMapKey k = key_of(f, key);

        return shm_map_delete(&f->actor, &f->trie, &k, 0);
}

/* The size; -ENOENT. *ret may be NULL. */
static ssize_t get(Fixture *f, const char *key, ShmMapView *ret) {
        ShmMapKey k = key_of(f, key);
        char buffer[4096];

        return shm_map_get(&f->trie, &k, buffer, sizeof(buffer), ret);
}

static ShmMapTotals totals(Fixture *f) {
        ShmMapTotals t;

        shm_map_totals(&f->arena, f->trie.map - 1, &t);
        return t;
}

static void run_pass(Fixture *f) {
        while (!shm_expiry_step(&f->actor, clock_ms, 100))
                ;
}

/* A thread that helps goes on where the last one ended: the entries that expired may be in the last slabs. */
static void test_expiry_help_goes_on(void **state) {
        Fixture *f = *state;
        uint32_t n_slabs, n = 0, round;
        bool deleted = false;

        for (char key[] = "a"; *key <= 'z'; ++*key)
                assert_int_equal(put(f, key, "value", 100), 0);
        clock_ms += 200;
        n_slabs = shm_arena_n_slabs_ever(&f->arena);
        f->arena.header->expiry.help = n_slabs - 1;
        for (round = 0; totals(f).entries > 0 && round < n_slabs; round++)
                n += shm_expiry_help(&f->actor, clock_ms, 1, &deleted);
        assert_int_equal(totals(f).entries, 0);
        assert_true(deleted);
        deleted = false;
        assert_int_equal(n, round); /* one slab in each round, and none twice */
        assert_int_equal(shm_expiry_help(&f->actor, clock_ms, UINT32_MAX, &deleted), n_slabs);
        assert_false(deleted);
}

static void test_expiry_is_absent_at_once(void **state) {
        char buffer[SHM_CLASS_SIZE_MAX];
        Fixture *f = *state;
        ShmTrieScan scan = {};
        ShmMapView view;

        assert_int_equal(put(f, "a", "value", 100), 0);
        assert_int_equal(put(f, "b", "stays", 0), 0);
        assert_int_equal(get(f, "a", &view), 5);
        assert_int_equal(view.expires, BEGIN_MS + 100);
        clock_ms += 99;
        assert_int_equal(get(f, "a", NULL), 5);
        assert_int_equal(shm_map_count(&f->trie), 2);
        clock_ms += 1;
        assert_int_equal(get(f, "a", NULL), -ENOENT);
        assert_int_equal(shm_map_count(&f->trie), 1);
        assert_int_equal(shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view), 1);
        assert_memory_equal(buffer, "bstays", 6);
        assert_int_equal(shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view), 0);
        assert_int_equal(touch(f, "a", 1000), -ENOENT);
        assert_int_equal(put_mode(f, "a", "x", 0, SHM_MAP_UPDATE, 0), -ENOENT);
        assert_int_equal(totals(f).entries, 2);
        assert_int_equal(delete (f, "a"), -ENOENT);
        assert_int_equal(totals(f).entries, 1);
        assert_int_equal(totals(f).expirations, 1);
}

/* A count of the map deletes an entry whose time is over, and is exact all the same. */
static void test_expiry_in_census(void **state) {
        Fixture *f = *state;
        ShmMapState *map = &f->arena.header->maps[f->trie.map - 1];
        ShmTrieScan scan = {};
        ShmMapCensus census;

        assert_int_equal(put(f, "a", "value", 100), 0);
        assert_int_equal(put(f, "b", "stays", 0), 0);
        assert_int_equal(totals(f).bytes, 2 * ENTRY_COST(64));
        clock_ms += 100;
        map->miscounts++;
        shm_map_census_begin(&f->arena, f->trie.map - 1, &census);
        while (!scan.done)
                assert_in_range(shm_map_clean(&f->actor, &f->trie, &scan, 16, &census), 0, 1);
        shm_map_census_end(&f->actor, f->trie.map - 1, &census);
        assert_int_equal(totals(f).expirations, 1);
        assert_int_equal(totals(f).entries, 1);
        assert_int_equal(totals(f).bytes, ENTRY_COST(64));
        assert_int_equal(map->roughly, 0);
}

static void test_expiry_then_put(void **state) {
        Fixture *f = *state;
        ShmMapView view;
        uint64_t version;

        assert_int_equal(put(f, "a", "old", 100), 0);
        assert_int_equal(get(f, "a", &view), 3);
        version = view.handle;
        clock_ms += 100;
        assert_int_equal(put_mode(f, "a", "x", 0, SHM_MAP_REPLACE, version), -EAGAIN);
        assert_int_equal(put_mode(f, "a", "newer", 100, SHM_MAP_INSERT, 0), 0);
        assert_int_equal(get(f, "a", NULL), 5);
        clock_ms += 100;
        assert_int_equal(put(f, "a", "newest", 0), 0);
        assert_int_equal(get(f, "a", &view), 6);
        assert_int_equal(view.expires, 0);
        assert_int_equal(totals(f).entries, 1);
        assert_int_equal(totals(f).expirations, 2);
        assert_int_equal(totals(f).inserts, 3);
        assert_int_equal(totals(f).bytes, ENTRY_COST(64));
}

static void test_touch(void **state) {
        Fixture *f = *state;
        ShmMapView before, view;

        assert_int_equal(touch(f, "a", 100), -ENOENT);
        assert_int_equal(put(f, "a", "value", 100), 0);
        assert_int_equal(get(f, "a", &before), 5);
        clock_ms += 50;
        assert_int_equal(touch(f, "a", 100), 0);
        clock_ms += 99;
        assert_int_equal(get(f, "a", &view), 5);
        assert_true(view.handle == before.handle);
        assert_int_equal(touch(f, "a", SHM_MAP_TTL_NONE), 0);
        clock_ms += UINT32_MAX;
        assert_int_equal(get(f, "a", NULL), 5);
        assert_int_equal(touch(f, "a", 1), 0);
        clock_ms += 1;
        assert_int_equal(get(f, "a", NULL), -ENOENT);
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* An entry that a touch gives an end, or an earlier one, goes when it is over. */
static void test_touch_ends(void **state) {
        Fixture *f = *state;

        assert_int_equal(put(f, "a", "value", SHM_MAP_TTL_NONE), 0);
        assert_int_equal(touch(f, "a", 100), 0);
        clock_ms += 100;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(put(f, "a", "value", 10000), 0);
        assert_int_equal(touch(f, "a", 100), 0);
        clock_ms += 100;
        assert_true(f->arena.header->expiry.first <= clock_ms);
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* An end that no entry can have is noted by no pass. */
static void test_expiry_damaged_end(void **state) {
        ShmMapKey k = key_of(*state, "a");
        Fixture *f = *state;
        ShmTrieCursor c;
        ShmMapView view;

        assert_int_equal(put(f, "a", "value", 100), 0);
        assert_int_equal(shm_map_find(&f->trie, &k, &c, &view), 0);
        assert_true(shm_map_set_end(&f->actor, &view, INT64_MAX));
        clock_ms += 100;
        run_pass(f);
        assert_int_equal(f->arena.header->expiry.first, 0);
        assert_int_equal(get(f, "a", NULL), 5);
}

/* 0 is the map's default, the largest number no end, and the largest but one ten years. */
static void test_expiry_bounds(void **state) {
        Fixture *f = *state;
        ShmMapView view;

        TRIE_SET_OPTION(&f->trie, ttl_ms, 500);
        assert_int_equal(put(f, "default", "", 0), 0);
        assert_int_equal(put(f, "none", "", UINT64_MAX), 0);
        assert_int_equal(put(f, "longest", "", SHM_MAP_TTL_MAX_MS), 0);
        assert_int_equal(get(f, "default", &view), 0);
        assert_int_equal(view.expires, BEGIN_MS + 500);
        assert_int_equal(get(f, "none", &view), 0);
        assert_int_equal(view.expires, 0);
        assert_int_equal(get(f, "longest", &view), 0);
        assert_int_equal(view.expires, BEGIN_MS + SHM_MAP_TTL_MAX_MS);
        clock_ms += SHM_MAP_TTL_MAX_MS - 1;
        assert_int_equal(get(f, "default", NULL), -ENOENT);
        assert_int_equal(get(f, "longest", NULL), 0);
        /* A clock that goes back, which the pool's does not, makes entries last longer. */
        clock_ms = BEGIN_MS - 1000;
        assert_int_equal(get(f, "default", NULL), 0);
        run_pass(f);
        assert_int_equal(totals(f).entries, 3);
}

/* A pass deletes what is over, and nothing else, and knows when the next one is worth while. */
static void test_expiry_pass(void **state) {
        enum { N = 3000 };
        ShmExpiry *expiry;
        Fixture *f = *state;
        uint64_t user;
        char name[16];
        void *object;

        expiry = &f->arena.header->expiry;
        assert_int_equal(expiry->first, 0);
        for (unsigned i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name, i % 3 * 1000), 0);
        }
        assert_int_equal(expiry->first, BEGIN_MS + 1000);
        /* An object of a user, with the bytes of an entry that is over. */
        assert_int_equal(shm_object_alloc(&f->actor, 64, SHM_EPOCH_CURRENT, NULL, &user, &object), 0);
        *(ShmMapLeaf *) object =
                (ShmMapLeaf){ .hash = 5, .expires = shm_leaf_seal(user) ^ 1, .map = f->trie.map };
        run_pass(f);
        assert_int_equal(totals(f).entries, N);
        clock_ms += 1000;
        run_pass(f);
        assert_int_equal(totals(f).entries, 2 * N / 3);
        assert_int_equal(totals(f).expirations, N / 3);
        assert_int_equal(totals(f).bytes, 2 * N / 3 * ENTRY_COST(64));
        assert_int_equal(expiry->first, BEGIN_MS + 2000);
        clock_ms += 1000;
        run_pass(f);
        assert_int_equal(totals(f).entries, N / 3);
        assert_int_equal(shm_map_count(&f->trie), N / 3);
        assert_int_equal(expiry->first, 0);
        assert_true(shm_object_live(&f->arena, user));
        assert_true(((ShmMapLeaf *) object)->expires == (shm_leaf_seal(user) ^ 1));
        assert_int_equal(shm_object_free(&f->actor, user), 0);
}

/* An entry comes between two steps of a pass, into a slab that the pass was at already: the next pass is for it. */
static void test_expiry_put_in_pass(void **state) {
        const char large[2000] = { [0 ... 1998] = 'x' };
        ShmExpiry *expiry;
        Fixture *f = *state;
        ShmMapView view;

        expiry = &f->arena.header->expiry;
        assert_int_equal(put(f, "a", "value", 100), 0);
        assert_int_equal(get(f, "a", &view), 5);
        assert_int_equal(put(f, "c", large, 0), 0);
        clock_ms += 100;
        while (expiry->hand <= slot_id_slab(shm_handle_slot(view.handle)))
                assert_false(shm_expiry_step(&f->actor, clock_ms, 1));
        assert_int_equal(put(f, "b", "value", 100), 0);
        run_pass(f);
        assert_int_equal(expiry->first, clock_ms + 100);
        clock_ms += 100;
        run_pass(f);
        assert_int_equal(totals(f).entries, 1);
        assert_int_equal(expiry->first, 0);
}

/* The thread that stepped died when it had looked at all, and found nothing: the next pass says so. */
static void test_expiry_dead_pass(void **state) {
        uint64_t now_ms, begin_ms;
        Fixture *f = *state;
        ShmExpiry *expiry;

        expiry = &f->arena.header->expiry;
        expiry->first = UINT64_MAX;
        assert_true(shm_expiry_due(&f->arena, false, &begin_ms));
        assert_true(shm_expiry_step(&f->actor, begin_ms, UINT32_MAX));
        assert_int_equal(expiry->first, 0);
        assert_false(shm_expiry_due(&f->arena, false, &now_ms));
}

/* Entries of two maps take turns in the slabs. */
static void test_expiry_two_maps(void **state) {
        enum { N = 500 };
        Fixture *f = *state;
        ShmTrie first = f->trie, second;
        char name[16];
        uint64_t root;

        assert_int_equal(shm_trie_create(&f->actor, first.epoch, &root), 0);
        assert_int_equal(shm_root_set(&f->arena, "map.second", 0, root), 0);
        assert_int_equal(shm_object_publish(&f->actor, root), 0);
        assert_int_equal(shm_trie_open(&second, &f->arena, root), 0);
        shm_map_attach(&second);
        second.now_ns = clock_ns;
        for (unsigned i = 0; i < N; i++) {
                f->trie = i % 3 ? first : second;
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name, i % 5 ? 1000 : 0), 0);
        }
        clock_ms += 1000;
        run_pass(f);
        f->trie = first;
        assert_int_equal(totals(f).entries, 66);
        assert_int_equal(shm_map_count(&first), 66);
        f->trie = second;
        assert_int_equal(totals(f).entries, 34);
        assert_int_equal(shm_map_count(&second), 34);
}

/* Nodes that a damaged word names are not looked for outside of the slabs, also not to be fetched early. */
static void test_expiry_damaged(void **state) {
        Fixture *f = *state;
        uint32_t n_slabs, slabs[] = { 0, 0, SHM_SLABS_MAX - 1 };
        char name[16];
        void *root = NULL;
        uint64_t was;

        assert_int_equal(shm_object_get(&f->arena, f->trie.root, &root, NULL), 0);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name, 1000), 0);
        }
        n_slabs = shm_arena_n_slabs_ever(&f->arena);
        slabs[1] = n_slabs;
        was = ((ShmTrieRoot *) root)->word;
        for (unsigned i = 0; i < 3; i++) {
                uint64_t handle = shm_handle_make(f->arena.key, slot_id(slabs[i], SHM_SLOTS_MAX - 1), 1);

                ((ShmTrieRoot *) root)->word = handle ^ SHM_TRIE_FLIP ^ shm_trie_seal(f->trie.root);
                clock_ms += 1000;
                for (unsigned k = 0; k < n_slabs; k++)
                        f->arena.lines[k].expires_first = 1;
                run_pass(f);
        }
        assert_int_equal(totals(f).entries, 100);
        ((ShmTrieRoot *) root)->word = was;
        for (unsigned k = 0; k < n_slabs; k++)
                f->arena.lines[k].expires_first = 1;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* A thread that put an entry died before it said when that ends: a count of the map finds it. */
static void test_expiry_unknown_end(void **state) {
        ShmMapSweep sweep = { .miscounted_only = true };
        Fixture *f = *state;

        assert_int_equal(put(f, "a", "value", 100), 0);
        memset(&f->arena.header->expiry, 0, sizeof(ShmExpiry));
        for (uint32_t i = 0; i < shm_arena_n_slabs_ever(&f->arena); i++)
                f->arena.lines[i].expires_first = 0;
        f->actor.record->map = f->trie.map;
        shm_map_miscounted(&f->arena, f->actor.record);
        while (!shm_map_sweep_step(&f->actor, &sweep, 7))
                ;
        clock_ms += 100;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

static int add_ttl(Fixture *f, const char *key, int64_t delta, int64_t initial, uint64_t ttl_ms,
                   int64_t *ret) {
        const ShmMapAdd add = {
                .delta = delta, .initial = initial, .ttl_ms = ttl_ms, .epoch = SHM_EPOCH_CURRENT
        };
        ShmMapKey k = key_of(f, key);

        return shm_map_add(&f->actor, &f->trie, &k, &add, ret);
}

static int64_t add(Fixture *f, const char *key, int64_t delta, int64_t initial) {
        int64_t value;

        assert_int_equal(add_ttl(f, key, delta, initial, 0, &value), 0);
        return value;
}

static void add_wrapping(Fixture *f, ShmMapKey *key, int64_t delta) {
        const ShmMapAdd add = { .delta = delta, .mode = SHM_MAP_ADD_WRAP, .epoch = SHM_EPOCH_CURRENT };
        int64_t value;

        assert_int_equal(shm_map_add(&f->actor, &f->trie, key, &add, &value), 0);
}

static void test_add(void **state) {
        static const char *const keys[] = { "", "1", "1234567", "12345678", "123456789", "a longer key" };
        char buffer[SHM_CLASS_SIZE_MAX];
        Fixture *f = *state;
        ShmTrieScan scan = {};
        unsigned n_met = 0;
        ShmMapView view;

        for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                ShmMapKey k = key_of(f, keys[i]);
                uint64_t version;
                int64_t value;

                assert_int_equal(add(f, keys[i], 5, 100), 105);
                assert_int_equal(shm_map_get(&f->trie, &k, &value, sizeof(value), &view), 8);
                assert_int_equal(value, 105);
                version = view.handle;
                assert_int_equal(add(f, keys[i], -205, 7), -100);
                assert_int_equal(add(f, keys[i], INT64_MAX, 0), INT64_MAX - 100);
                assert_int_equal(add_ttl(f, keys[i], 101, 0, 0, &value), -EOVERFLOW);
                assert_int_equal(shm_map_get(&f->trie, &k, &value, sizeof(value), &view), 8);
                assert_true(value == INT64_MAX - 100 && view.handle == version);
                add_wrapping(f, &k, 101);
                assert_int_equal(shm_map_get(&f->trie, &k, &value, sizeof(value), &view), 8);
                assert_true(value == INT64_MIN && view.handle == version);
        }
        for (; shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view) == 1; n_met++) {
                int64_t value;

                assert_int_equal(view.head.value_size, 8);
                memcpy(&value, buffer + view.head.key_size, sizeof(value));
                assert_true(value == INT64_MIN);
        }
        assert_int_equal(n_met, sizeof(keys) / sizeof(keys[0]));
}

static void test_add_and_put(void **state) {
        Fixture *f = *state;
        ShmMapView view;
        int64_t value = 77;

        assert_int_equal(put(f, "a", "eight by", 0), 0);
        assert_int_equal(add_ttl(f, "a", 1, 0, 0, &value), -EINVAL);
        assert_int_equal(value, 77);
        assert_int_equal(delete (f, "a"), 0);
        assert_int_equal(add(f, "a", 1, 0), 1);
        assert_int_equal(get(f, "a", &view), 8);
        assert_int_equal(put_mode(f, "a", "text", 0, SHM_MAP_REPLACE, view.handle), 0);
        assert_int_equal(get(f, "a", NULL), 4);
        assert_int_equal(add_ttl(f, "a", 1, 0, 0, &value), -EINVAL);
        assert_int_equal(delete (f, "a"), 0);
        assert_int_equal(totals(f).bytes, 0);
}

/* The counter that a call makes ends; a call that adds to it does not prolong it. */
static void test_add_ttl(void **state) {
        Fixture *f = *state;
        int64_t value;

        assert_int_equal(add_ttl(f, "a", 1, 0, 100, &value), 0);
        clock_ms += 60;
        assert_int_equal(add_ttl(f, "a", 1, 0, 100, &value), 0);
        assert_int_equal(value, 2);
        clock_ms += 60;
        assert_int_equal(add_ttl(f, "a", 1, 0, 100, &value), 0);
        assert_int_equal(value, 1);
        assert_int_equal(touch(f, "a", 1000), 0);
        clock_ms += 999;
        assert_int_equal(add_ttl(f, "a", 1, 0, 100, &value), 0);
        assert_int_equal(value, 2);
}

static int limit_burst(Fixture *f, const char *key, uint64_t burst_ms, uint64_t cost_ms,
                       uint64_t *ret_wait_ms) {
        const ShmMapRate rate = {
                .burst_ns = burst_ms * SHM_NS_PER_MS,
                .cost_ns = cost_ms * SHM_NS_PER_MS,
                .epoch = SHM_EPOCH_CURRENT,
        };
        ShmMapKey k = key_of(f, key);
        uint64_t wait_ns = 0;
        int r;

        r = shm_map_limit(&f->actor, &f->trie, &k, &rate, &wait_ns);
        *ret_wait_ms = wait_ns / SHM_NS_PER_MS;
        return r;
}

/* 10 a second, 5 at once. */
static int limit(Fixture *f, const char *key, uint32_t cost, uint64_t *ret_wait_ms) {
        return limit_burst(f, key, 500, cost * 100, ret_wait_ms);
}

static void test_limit(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;
        int64_t value;

        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 100);
        assert_int_equal(limit(f, "a", 5, &wait_ms), 1);
        assert_int_equal(wait_ms, 500);
        assert_int_equal(limit(f, "b", 5, &wait_ms), 0);
        clock_ms += 99;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 1);
        clock_ms += 1;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(add_ttl(f, "a", 1, 0, 0, &value), -EINVAL);
        /* In use for long, its leaf is kept; full again, it goes. */
        for (unsigned i = 0; i < 100; i++) {
                clock_ms += 100;
                assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
                assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        }
        clock_ms += 5000;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        /* A clock that goes back: the tokens come that much later, and the call says so. */
        clock_ms -= 4000;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 4100);
        clock_ms += 4100;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
}

/* A smaller burst than that with which the bucket became empty: it has enough after the time that is told. */
static void test_limit_smaller_burst(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;

        assert_int_equal(limit_burst(f, "a", 100000, 100000, &wait_ms), 0);
        assert_int_equal(limit_burst(f, "a", 500, 100, &wait_ms), 1);
        assert_int_equal(wait_ms, 99600);
        clock_ms += wait_ms - 1;
        assert_int_equal(limit_burst(f, "a", 500, 100, &wait_ms), 1);
        assert_int_equal(wait_ms, 1);
        clock_ms += 1;
        assert_int_equal(limit_burst(f, "a", 500, 100, &wait_ms), 0);
}

/* Damage in the word of a bucket is no token. */
static void test_limit_damaged(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c;
        ShmMapView view;
        uint64_t wait_ms;
        ShmMapKey k = key_of(f, "a");

        assert_int_equal(limit(f, "a", 5, &wait_ms), 0);
        assert_int_equal(shm_map_find(&f->trie, &k, &c, &view), 0);
        *shm_map_view_cell(&view) = UINT64_MAX ^ shm_leaf_seal(view.handle);
        assert_int_equal(limit(f, "a", 5, &wait_ms), 1);
        assert_int_equal(limit_burst(f, "a", (UINT64_C(1) << 62) / SHM_NS_PER_MS,
                                     (UINT64_C(1) << 62) / SHM_NS_PER_MS, &wait_ms),
                         1);
}

/* A bucket that takes longer to fill than entries can live goes, too, once it is full. */
static void test_limit_slow(void **state) {
        const uint64_t day_ms = UINT64_C(24) * 3600 * 1000;
        Fixture *f = *state;
        uint64_t wait_ms;

        assert_int_equal(limit_burst(f, "a", 200 * day_ms, 200 * day_ms, &wait_ms), 0);
        assert_int_equal(put(f, "b", "value", 100), 0);
        clock_ms += 1000;
        run_pass(f);
        assert_int_equal(totals(f).entries, 1);
        clock_ms += 201 * day_ms;
        assert_true(f->arena.header->expiry.first != 0 && f->arena.header->expiry.first <= clock_ms);
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* The bucket of a key that comes once goes when it is full, but not before. */
static void test_limit_once(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;

        assert_int_equal(limit(f, "a", 5, &wait_ms), 0);
        clock_ms += 499;
        run_pass(f);
        assert_int_equal(totals(f).entries, 1);
        clock_ms += 3;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* Tokens come between two ticks of the kernel, too. */
static void test_limit_between_ticks(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;

        late_ms = 40;
        assert_int_equal(limit(f, "a", 5, &wait_ms), 0);
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 100);
        assert_int_equal(limit(f, "a", 0, &wait_ms), 0);
        clock_ms += 100;
        late_ms = 45;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 100);
        /* It is full, but does not hold more. */
        clock_ms += 510;
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        late_ms = 0;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 1);
        assert_int_equal(wait_ms, 100);
        /* That of a key that comes once is not forgotten before it is full. */
        late_ms = 40;
        assert_int_equal(limit(f, "b", 5, &wait_ms), 0);
        late_ms = 0;
        clock_ms += 480;
        assert_int_equal(limit(f, "b", 5, &wait_ms), 1);
        assert_int_equal(wait_ms, 20);
}

/* A bucket has an end, also where it would be full by the time that its thread goes on. */
static void test_limit_held_up(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;

        held_ms = 200;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
        /* Nor does one lose its end. */
        held_ms = 0;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        clock_ms += 60;
        held_ms = 5000;
        assert_int_equal(limit(f, "a", 1, &wait_ms), 0);
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* Stale values go in a pass that begins after their map was full; those of other maps stay. */
static void test_expiry_squeeze(void **state) {
        Fixture *f = *state;
        ShmTrie second, first = f->trie;

        map_trie_create_as(&f->actor, "map.second", &second);
        second.now_ns = clock_ns;
        TRIE_SET_OPTION(&first, stale_ms, 60000);
        TRIE_SET_OPTION(&second, stale_ms, 60000);
        for (unsigned i = 0; i < 2; i++) {
                f->trie = i == 0 ? first : second;
                assert_int_equal(put(f, "stale", "value", 100), 0);
                assert_int_equal(put(f, "later", "value", 90000), 0);
        }
        clock_ms += 1000;
        run_pass(f);
        assert_int_equal(totals(f).entries, 2);
        shm_expiry_squeeze(&f->arena, first.map);
        run_pass(f);
        assert_int_equal(totals(f).entries, 2);
        f->trie = first;
        assert_int_equal(totals(f).entries, 1);
        /* Later passes spare them again. */
        assert_int_equal(put(f, "stale", "value", 100), 0);
        clock_ms += 1000;
        run_pass(f);
        assert_int_equal(totals(f).entries, 2);
        shm_expiry_squeeze(&f->arena, 0);
        run_pass(f);
        assert_int_equal(totals(f).entries, 1);
        f->trie = second;
        assert_int_equal(totals(f).entries, 1);
        f->trie = first;
}

/* `stale_ms` is lowered after a pass has left the stale value where it is. */
static void test_expiry_stale_lowered(void **state) {
        Fixture *f = *state;
        uint64_t now_ms;

        TRIE_SET_OPTION(&f->trie, stale_ms, 3600000);
        assert_int_equal(put(f, "key", "value", 100), 0);
        clock_ms += 1000;
        run_pass(f);
        run_pass(f);
        assert_int_equal(totals(f).entries, 1);
        TRIE_SET_OPTION(&f->trie, stale_ms, 500);
        assert_false(shm_expiry_due(&f->arena, true, &now_ms));
        shm_expiry_look_again(&f->arena);
        assert_true(shm_expiry_due(&f->arena, true, &now_ms));
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
}

/* The end of its leaf would fill the bucket. */
static void test_touch_bucket(void **state) {
        Fixture *f = *state;
        uint64_t wait_ms;

        assert_int_equal(limit(f, "b", 5, &wait_ms), 0);
        assert_int_equal(limit(f, "b", 5, &wait_ms), 1);
        assert_int_equal(touch(f, "b", 1), -EINVAL);
        clock_ms += 2;
        assert_int_equal(limit(f, "b", 5, &wait_ms), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_expiry_is_absent_at_once, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_in_census, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_then_put, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_touch, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_touch_ends, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_damaged_end, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_bounds, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_pass, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_put_in_pass, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_dead_pass, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_two_maps, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_damaged, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_unknown_end, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_squeeze, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_stale_lowered, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_touch_bucket, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_and_put, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_ttl, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_smaller_burst, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_expiry_help_goes_on, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_damaged, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_slow, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_once, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_between_ticks, setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_held_up, setup, map_teardown),
        };

        return cmocka_run_group_tests_name("map-expiry", tests, NULL, NULL);
}
