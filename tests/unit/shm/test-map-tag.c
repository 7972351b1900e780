/* Tags of entries, in one thread and on a clock of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/cache/cache.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/map/entry/tag.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/util/map-options.h"

#define BEGIN_MS (UINT64_C(1) << 40) /* later than any clock of the system */
#define HOUR_MS (3600 * UINT64_C(1000))

typedef MapFixture Fixture;

static uint64_t clock_ms;

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return clock_ms * SHM_NS_PER_MS;
}

static int setup(void **state) {
        Fixture *f;

        clock_ms = BEGIN_MS;
        (void) map_setup(state);
        f = *state;
        f->trie.now_ns = clock_ns;
        f->trie.exact_ns = clock_ns;
        return 0;
}

static ShmMapKey key_of(Fixture *f, const char *text) {
        return (ShmMapKey){ text, (uint32_t) strlen(text), shm_hash(&f->arena, text, strlen(text)) };
}

static uint64_t tag_of(Fixture *f, const char *text) {
        ShmMapKey name = key_of(f, text), key = shm_map_tag_key(&name);
        uint64_t tag = 0;

        assert_int_equal(shm_map_tag(&f->actor, &f->trie, &key, SHM_EPOCH_CURRENT, &tag), 0);
        return tag;
}

static int invalidate(Fixture *f, const char *text) {
        ShmMapKey name = key_of(f, text), key = shm_map_tag_key(&name);

        return shm_map_invalidate(&f->actor, &f->trie, &key);
}

static void put_sized(Fixture *f, const char *key, const void *value, size_t size, uint64_t ttl_ms,
                      const uint64_t *tags, uint32_t n_tags) {
        ShmMapKey k = key_of(f, key);
        ShmMapPut p = {
                .value = value,
                .value_size = (uint32_t) size,
                .epoch = SHM_EPOCH_CURRENT,
                .ttl_ms = ttl_ms,
                .tags = tags,
                .n_tags = n_tags,
        };

        assert_int_equal(shm_map_put(&f->actor, &f->trie, &k, &p, NULL), 0);
}

static void put(Fixture *f, const char *key, uint64_t ttl_ms, uint64_t tag) {
        put_sized(f, key, "value", 5, ttl_ms, &tag, tag != 0);
}

static bool has(Fixture *f, const char *key) {
        ShmMapKey k = key_of(f, key);
        char value[64];
        ssize_t n = shm_map_get(&f->trie, &k, value, sizeof(value), NULL);

        if (n >= 0)
                assert_memory_equal(value, "value", 5);
        else
                assert_int_equal(n, -ENOENT);
        return n >= 0;
}

static ssize_t get_stale(Fixture *f, const char *key) {
        ShmMapKey k = key_of(f, key);
        char value[64];
        ShmMapView view;

        return shm_map_get_stale(&f->trie, &k, value, sizeof(value), &view);
}

static ShmMapTotals totals(Fixture *f) {
        ShmMapTotals t;

        shm_map_totals(&f->arena, f->trie.map - 1, &t);
        return t;
}

static void run_pass(Fixture *f) {
        while (!shm_expiry_step(&f->actor, clock_ms, UINT32_MAX))
                ;
}

static void test_invalidate(void **state) {
        Fixture *f = *state;
        uint64_t tags[2];

        assert_int_equal(invalidate(f, "t"), -ENOENT);
        tags[0] = tag_of(f, "t");
        tags[1] = tag_of(f, "u");
        assert_true(tag_of(f, "t") == tags[0]);
        put(f, "a", 0, tags[0]);
        put(f, "b", 0, tags[1]);
        put(f, "c", 0, 0);
        put_sized(f, "d", "value", 5, 0, tags, 2);
        assert_int_equal(invalidate(f, "t"), 0);
        assert_int_equal(invalidate(f, "t"), -ENOENT);
        assert_false(has(f, "a"));
        assert_true(has(f, "b"));
        assert_true(has(f, "c"));
        assert_false(has(f, "d"));
        assert_int_equal(invalidate(f, "u"), 0);
        assert_false(has(f, "b"));
        assert_true(has(f, "c"));
        /* The name begins anew, and the entries stay absent. */
        assert_true(tag_of(f, "t") != tags[0]);
        assert_false(has(f, "a"));
        put(f, "a", 0, tag_of(f, "t"));
        assert_true(has(f, "a"));
        put(f, "a", 0, 0);
        assert_int_equal(invalidate(f, "t"), 0);
        assert_true(has(f, "a"));
}

/* The value was computed before the tag was invalidated, and is put after that. */
static void test_put_after_invalidation(void **state) {
        Fixture *f = *state;
        uint64_t tag = tag_of(f, "t");

        put(f, "a", 0, 0);
        assert_int_equal(invalidate(f, "t"), 0);
        put(f, "a", 0, tag);
        assert_false(has(f, "a"));
        tag = tag_of(f, "t");
        assert_false(has(f, "a"));
        put(f, "a", 0, tag);
        assert_true(has(f, "a"));
}

/* A tag and a key of the same bytes do not meet, and no walk meets a tag. */
static void test_tag_is_no_entry(void **state) {
        Fixture *f = *state;
        uint64_t tag = tag_of(f, "t");
        ShmTrieScan scan = {};
        ShmMapView view;
        char buffer[64];
        unsigned n = 0;

        assert_false(has(f, "t"));
        put(f, "t", 0, tag);
        put(f, "a", 0, tag);
        assert_int_equal(shm_map_count(&f->trie), 2);
        while (shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view) == 1)
                n++;
        assert_int_equal(n, 2);
        assert_int_equal(invalidate(f, "t"), 0);
        assert_int_equal(shm_map_count(&f->trie), 0);
        assert_int_equal(tag_of(f, "a") == 0, 0);
        put(f, "a", 0, 0);
        assert_int_equal(invalidate(f, "a"), 0);
        assert_true(has(f, "a"));
}

/* Sizes from one object to many chunks, with up to four tags, keep their bytes. */
static void test_sizes(void **state) {
        static uint8_t value[40000], got[sizeof(value)];
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "key");
        uint64_t tags[SHM_LEAF_TAGS_MAX];

        for (size_t i = 0; i < sizeof(value); i++)
                value[i] = (uint8_t) (i * 31);
        for (uint32_t n = 0; n <= SHM_LEAF_TAGS_MAX; n++)
                for (size_t size = 0; size < sizeof(value); size = size * 3 / 2 + 7) {
                        ShmMapView view;

                        for (uint32_t i = 0; i < n; i++)
                                tags[i] = tag_of(f, (const char *[]){ "a", "b", "c", "d" }[i]);
                        put_sized(f, "key", value, size, 0, tags, n);
                        assert_int_equal(shm_map_get(&f->trie, &k, got, sizeof(got), &view), size);
                        assert_memory_equal(got, value, size);
                        assert_int_equal(shm_leaf_n_tags(view.head.flags), n);
                        if (n == 0)
                                continue;
                        assert_int_equal(invalidate(f, (const char *[]){ "a", "b", "c", "d" }[n - 1]), 0);
                        assert_int_equal(shm_map_get(&f->trie, &k, got, sizeof(got), &view), -ENOENT);
                }
}

/* Memory of entries without an end, too, comes back by a pass. */
static void test_pass(void **state) {
        Fixture *f = *state;
        uint64_t tag = tag_of(f, "t"), now_ms;
        char key[16];

        for (unsigned i = 0; i < 300; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                put(f, key, i % 2 ? (uint32_t) HOUR_MS : 0, i % 3 ? tag : 0);
        }
        run_pass(f);
        assert_int_equal(totals(f).entries, 301);
        assert_int_equal(invalidate(f, "t"), 0);
        assert_int_equal(totals(f).entries, 300);
        assert_true(shm_expiry_due(&f->arena, true, &now_ms));
        run_pass(f);
        assert_int_equal(totals(f).entries, 100);
        assert_int_equal(shm_map_count(&f->trie), 100);
        assert_int_equal(totals(f).expirations, 200);
}

/*
 * A thread that frees a tag may die before it asks for a pass: the map is counted anew then. And the sweep after a
 * revocation of the tag's epoch meets its entries in other epochs.
 */
static void test_sweep(void **state) {
        Fixture *f = *state;
        uint64_t tag = tag_of(f, "t");
        char key[16];

        for (unsigned i = 0; i < 30; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                put(f, key, i % 2 ? (uint32_t) HOUR_MS : 0, i % 3 ? tag : 0);
        }
        assert_int_equal(shm_object_free(&f->actor, tag), 0);
        for (ShmMapSweep sweep = {}; !shm_map_sweep_step(&f->actor, &sweep, 16);)
                ;
        assert_int_equal(totals(f).entries, 10);
        assert_int_equal(shm_map_count(&f->trie), 10);
}

/* A tag goes when its entries have ended, and not before. */
static void test_tag_ends(void **state) {
        Fixture *f = *state;
        uint64_t tag = tag_of(f, "t");
        ShmMapKey k = key_of(f, "a");

        put(f, "a", (uint32_t) (5 * HOUR_MS), tag);
        clock_ms += 4 * HOUR_MS;
        run_pass(f);
        assert_true(has(f, "a"));
        assert_int_equal(shm_map_touch(&f->actor, &f->trie, &k, (uint32_t) (100 * HOUR_MS)), 0);
        clock_ms += 99 * HOUR_MS;
        run_pass(f);
        assert_true(has(f, "a"));
        clock_ms += 1000 * HOUR_MS;
        run_pass(f);
        assert_int_equal(totals(f).entries, 0);
        /* That of an entry without an end stays. */
        tag = tag_of(f, "t");
        put(f, "a", SHM_MAP_TTL_NONE, tag);
        clock_ms += 100000 * HOUR_MS;
        run_pass(f);
        assert_true(has(f, "a"));
        assert_true(tag_of(f, "t") == tag);
        /* A touch takes the end away. */
        put(f, "b", (uint32_t) HOUR_MS, tag_of(f, "u"));
        k = key_of(f, "b");
        assert_int_equal(shm_map_touch(&f->actor, &f->trie, &k, SHM_MAP_TTL_NONE), 0);
        clock_ms += 100000 * HOUR_MS;
        run_pass(f);
        assert_true(has(f, "b"));
        assert_int_equal(invalidate(f, "u"), 0);
        assert_false(has(f, "b"));
}

typedef ssize_t Use(Fixture *f, const ShmMapKey *key);

static ssize_t use_look(Fixture *f, const ShmMapKey *key) {
        ShmMapView view;

        return shm_map_look(&f->trie, key, &view);
}

static ssize_t use_look_stale(Fixture *f, const ShmMapKey *key) {
        ShmMapView view;

        return shm_map_look_stale(&f->trie, key, &view);
}

static ssize_t use_get(Fixture *f, const ShmMapKey *key) {
        char value[5];

        return shm_map_get(&f->trie, key, value, sizeof(value), NULL);
}

static ssize_t use_get_stale(Fixture *f, const ShmMapKey *key) {
        char value[5];
        ShmMapView view;

        return shm_map_get_stale(&f->trie, key, value, sizeof(value), &view);
}

static ssize_t use_touch(Fixture *f, const ShmMapKey *key) {
        return shm_map_touch(&f->actor, &f->trie, key, HOUR_MS);
}

static ssize_t use_get_touch(Fixture *f, const ShmMapKey *key) {
        char value[5];
        ShmMapView view;

        return shm_map_get_touch(&f->actor, &f->trie, key, HOUR_MS, value, sizeof(value), &view);
}

/* An entry that is used keeps its tags from being evicted: without them it would be absent. */
static void test_use_keeps_tags(void **state) {
        static Use *const uses[] = {
                use_look, use_look_stale, use_get, use_get_stale, use_touch, use_get_touch,
        };
        Fixture *f = *state;
        ShmMapKey key = key_of(f, "a");
        uint64_t tag = tag_of(f, "t");
        SlotId id = shm_handle_slot(tag);

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        put(f, "a", HOUR_MS, tag);
        for (uint32_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
                f->arena.lines[slot_id_slab(id)].visited = 0;
                assert_true(uses[i](f, &key) >= 0);
                assert_true(f->arena.lines[slot_id_slab(id)].visited & slot_id_mask(id));
        }
}

/* An expired value can be had as a stale one until its tag goes; so can the copy of a claim. */
static void test_stale(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "a");
        char buffer[64];
        ShmMapClaim claim = {
                .epoch = SHM_EPOCH_CURRENT, .limit_ms = 30000, .buffer = buffer, .buffer_size = sizeof(buffer)
        };
        ShmClaimed claimed;

        TRIE_SET_OPTION(&f->trie, stale_ms, 60000);
        for (unsigned way = 0; way < 3; way++) {
                put(f, "a", 100, tag_of(f, "t"));
                clock_ms += 200;
                assert_int_equal(get_stale(f, "a"), 5);
                if (way > 0)
                        assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
                assert_int_equal(get_stale(f, "a"), 5);
                if (way > 1) {
                        claim.gone = claimed.version;
                        assert_int_equal(shm_map_give_up(&f->actor, &f->trie, &k, &claim, &claimed), 0);
                        claim.gone = 0;
                        assert_int_equal(get_stale(f, "a"), 5);
                }
                assert_int_equal(invalidate(f, "t"), 0);
                assert_int_equal(get_stale(f, "a"), -ENOENT);
                (void) shm_map_delete(&f->actor, &f->trie, &k, 0);
        }
}

#define ON_MAP(f) cmocka_unit_test_setup_teardown(f, setup, map_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_MAP(test_invalidate),
                ON_MAP(test_put_after_invalidation),
                ON_MAP(test_tag_is_no_entry),
                ON_MAP(test_sizes),
                ON_MAP(test_pass),
                ON_MAP(test_sweep),
                ON_MAP(test_tag_ends),
                ON_MAP(test_use_keeps_tags),
                ON_MAP(test_stale),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
