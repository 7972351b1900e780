/* Shortcuts of a large map, in one thread: a get by one finds what a get by the trie does. */
#include <errno.h>
#include <string.h>

#include "shm/cache/cache.h"
#include "shm/map/entry/map.h"
#include "shm/map/entry/shortcut.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/map-remove.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/util/map-options.h"

#define N 40000U
#define TAGS 512U /* uses of a slot after which a shortcut has the same bits of the tag */
#define VALUE_SIZE 40

typedef struct Value {
        uint64_t words[VALUE_SIZE / 8];
} Value;

static ShmMapKey make_key(const MapFixture *f, const uint32_t *k) {
        return (ShmMapKey){ k, sizeof(*k), shm_hash(&f->arena, k, sizeof(*k)) };
}

static void put_with(MapFixture *f, const ShmTrie *trie, uint32_t k, uint64_t word, uint64_t ttl_ms) {
        Value value = { { word } };
        const ShmMapPut put = {
                .value = &value, .value_size = VALUE_SIZE, .epoch = SHM_EPOCH_CURRENT, .ttl_ms = ttl_ms
        };
        ShmMapKey key = make_key(f, &k);

        assert_int_equal(shm_map_put(&f->actor, trie, &key, &put, NULL), 0);
}

static void put(MapFixture *f, uint32_t k, uint64_t word) {
        put_with(f, &f->trie, k, word, SHM_MAP_TTL_NONE);
}

/* The value's word, or an error. */
static int64_t get(MapFixture *f, const ShmTrie *trie, uint32_t k) {
        ShmMapKey key = make_key(f, &k);
        Value value;
        ssize_t n = shm_map_get(trie, &key, &value, sizeof(value), NULL);

        return n < 0 ? n : (int64_t) value.words[0];
}

static uint64_t find_by_trie(MapFixture *f, uint32_t k) {
        ShmMapKey key = make_key(f, &k);
        ShmTrieCursor c;
        ShmMapView view;

        return shm_map_find(&f->trie, &key, &c, &view) == 0 ? view.handle : 0;
}

static uint64_t find_by_shortcut(MapFixture *f, uint32_t k) {
        return shm_shortcut_find(&f->trie, make_key(f, &k).hash);
}

static bool has_flag(MapFixture *f, uint64_t leaf) {
        ShmMapLeaf head;

        assert_int_equal(shm_object_copy(&f->arena, leaf, 0, &head, sizeof(head)), 0);
        return head.flags & SHM_LEAF_SHORTCUT;
}

static uint32_t n_pages(const MapFixture *f) {
        return f->arena.header->n_shortcut_pages;
}

static void fill(MapFixture *f) {
        for (uint32_t k = 0; k < N; k++)
                put(f, k, k);
}

static void test_shortcut_of_small_map(void **state) {
        MapFixture *f = *state;

        for (uint32_t k = 0; k < 1000; k++)
                put(f, k, k);
        assert_int_equal(n_pages(f), 0);
        for (uint32_t k = 0; k < 1000; k++)
                assert_false(has_flag(f, find_by_trie(f, k)));
}

/* While the table grows, most leaves that may have a shortcut have one; gets add some that had no room. */
static void test_shortcut_of_most(void **state) {
        MapFixture *f = *state;
        uint32_t n_flags = 0, n_found = 0;

        fill(f);
        for (uint32_t k = 0; k < N; k++) {
                uint64_t leaf = find_by_trie(f, k), found = find_by_shortcut(f, k);

                n_flags += has_flag(f, leaf);
                n_found += found == leaf;
                assert_int_equal(get(f, &f->trie, k), k);
        }
        assert_in_range(n_flags, N / 2, N);
        assert_in_range(n_found, n_flags * 9 / 10, n_flags);
        assert_in_range(n_pages(f), N / 512, 2 * N / 512 + 17);
}

static void test_shortcut_of_changed_entry(void **state) {
        MapFixture *f = *state;

        fill(f);
        for (uint32_t k = 0; k < N; k++) {
                ShmMapKey key = make_key(f, &k);

                put(f, k, N + k);
                assert_int_equal(get(f, &f->trie, k), N + k);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
                assert_int_equal(get(f, &f->trie, k), -ENOENT);
                put(f, k, k);
                assert_int_equal(get(f, &f->trie, k), k);
        }
}

/* A leaf that is about to be unlinked, by a thread that died or stands still: the trie is asked. */
static void test_shortcut_of_leaving_entry(void **state) {
        MapFixture *f = *state;
        ShmTrieCursor c = {};
        ShmMapView view;
        uint32_t k = N - 1;
        ShmMapKey key = make_key(f, &k);

        fill(f);
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(find_by_shortcut(f, k), view.handle);
        *shm_map_view_end(&view) ^= SHM_LEAF_LEAVING;
        assert_int_equal(get(f, &f->trie, k), k);
        *c.word ^= c.value; /* unlinked, and alive */
        assert_int_equal(get(f, &f->trie, k), -ENOENT);
        *c.word ^= c.value;
        /* The mark is no part of the end. */
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(view.marks, SHM_LEAF_LEAVING);
        assert_int_equal(view.expires, 0);
        assert_true(shm_map_set_end(&f->actor, &view, SHM_MAP_FOREVER));
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(view.marks, SHM_LEAF_LEAVING);
        assert_int_equal(view.expires, SHM_MAP_FOREVER);
}

static void test_shortcut_of_ended_entry(void **state) {
        MapFixture *f = *state;
        ShmMapView view;
        ShmTrieCursor c;
        uint32_t k = N;
        ShmMapKey key = make_key(f, &k);

        fill(f);
        put_with(f, &f->trie, k, k, 100000);
        assert_int_not_equal(find_by_shortcut(f, k), 0);
        assert_int_equal(get(f, &f->trie, k), k);
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_true(shm_map_set_end(&f->actor, &view, SHM_MAP_ENDED));
        assert_int_equal(get(f, &f->trie, k), -ENOENT);
}

/* Freed by its handle, and then the slot has an object whose owner leaves the bytes as they were. */
static void test_shortcut_of_freed_entry(void **state) {
        MapFixture *f = *state;
        uint64_t leaf, handle = 0;
        ShmMapView view;
        ShmTrieCursor c;
        uint32_t k = N - 1;
        ShmMapKey key = make_key(f, &k);

        fill(f);
        leaf = find_by_shortcut(f, k);
        assert_int_not_equal(leaf, 0);
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(shm_object_free(&f->actor, leaf), 0);
        assert_int_equal(find_by_shortcut(f, k), 0);
        for (uint32_t i = 0; i < 1024; i++) {
                assert_int_equal(
                        shm_object_alloc(&f->actor, view.room, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
                if (shm_handle_slot(handle).value == shm_handle_slot(leaf).value)
                        break;
        }
        assert_int_equal(shm_handle_slot(handle).value, shm_handle_slot(leaf).value);
        assert_int_equal(find_by_shortcut(f, k), 0);
        assert_int_equal(get(f, &f->trie, k), -ENOENT);
}

/* One table serves two maps with the same keys; one map goes, and its leaves are there still. */
static void test_shortcut_of_two_maps(void **state) {
        MapFixture *f = *state;
        ShmTrie other;
        uint32_t n_found = 0, k = N - 1;
        uint64_t leaf;

        map_trie_create_as(&f->actor, "map.other", &other);
        fill(f);
        for (uint32_t i = 0; i < N; i++)
                put_with(f, &other, i, N + i, SHM_MAP_TTL_NONE);
        for (uint32_t i = 0; i < N; i++) {
                n_found += find_by_shortcut(f, i) == find_by_trie(f, i);
                assert_int_equal(get(f, &f->trie, i), i);
                assert_int_equal(get(f, &other, i), N + i);
        }
        assert_in_range(n_found, N / 2, N); /* a key has two shortcuts */
        while (find_by_shortcut(f, k) != find_by_trie(f, k))
                k--;
        leaf = find_by_shortcut(f, k);
        assert_int_equal(shm_map_remove(&f->actor, "map.test", 0), 0);
        assert_true(shm_object_live(&f->arena, leaf));
        assert_int_equal(get(f, &f->trie, k), -EIDRM);
        assert_int_equal(get(f, &other, k), N + k);
}

/*
 * The slot was used so often since that an old shortcut has the tag of the key's new leaf. Before this is linked, it
 * has a mark, as is left when the thread dies there: the trie is asked.
 */
static void test_shortcut_of_old_tag(void **state) {
        MapFixture *f = *state;
        uint32_t k = N - 1;
        ShmMapKey key = make_key(f, &k);
        uint64_t leaf, handle = 0;
        ShmMapView view;
        ShmTrieCursor c;

        fill(f);
        leaf = find_by_shortcut(f, k);
        assert_int_not_equal(leaf, 0);
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        for (uint32_t i = 1; i < TAGS; i++) {
                assert_int_equal(
                        shm_object_alloc(&f->actor, view.room, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
                assert_int_equal(shm_handle_slot(handle).value, shm_handle_slot(leaf).value);
                assert_int_equal(find_by_shortcut(f, k), 0);
                assert_int_equal(shm_object_free(&f->actor, handle), 0);
        }
        put(f, k, N);
        handle = find_by_trie(f, k);
        assert_int_equal(shm_handle_slot(handle).value, shm_handle_slot(leaf).value);
        assert_int_equal(find_by_shortcut(f, k), handle);
        assert_true(has_flag(f, handle));
        assert_int_equal(get(f, &f->trie, k), N);
        assert_int_equal(shm_map_find(&f->trie, &key, &c, &view), 0);
        assert_int_equal(view.marks, 0);
        *shm_map_view_end(&view) ^= SHM_LEAF_ARRIVING;
        *c.word ^= c.value; /* not linked, and alive */
        assert_int_equal(get(f, &f->trie, k), -ENOENT);
        *c.word ^= c.value;
        assert_int_equal(get(f, &f->trie, k), N);
        put(f, k, k);
        assert_int_equal(get(f, &f->trie, k), k);
}

/* A put that was held up: the map was removed since, and the slot of its root has another object. */
static void test_shortcut_of_removed_root(void **state) {
        MapFixture *f = *state;
        uint32_t i = f->trie.map - 1;
        uint64_t handle = 0;
        void *object = NULL;
        const uint8_t zeros[sizeof(ShmTrieRoot)] = {};

        assert_int_equal(shm_map_remove(&f->actor, "map.test", 0), 0);
        while (!shm_map_drain_step(&f->actor, i, 64))
                ;
        for (uint32_t n = 0; n < 1024; n++) {
                assert_int_equal(shm_object_alloc(&f->actor, sizeof(ShmTrieRoot), SHM_EPOCH_CURRENT, NULL,
                                                  &handle, &object),
                                 0);
                if (shm_handle_slot(handle).value == shm_handle_slot(f->trie.root).value)
                        break;
        }
        assert_int_equal(shm_handle_slot(handle).value, shm_handle_slot(f->trie.root).value);
        memset(object, 0, sizeof(zeros));
        f->arena.header->maps[i].counts[SHM_MAP_BYTES] = SHM_SHORTCUT_MAP_BYTES;
        shm_shortcut_begin(&f->actor, &f->trie);
        assert_memory_equal(object, zeros, sizeof(zeros));
}

static uint32_t n_asked;

static int64_t find_no_allowance(void) {
        n_asked++;
        return 0;
}

/* There is no memory for the table: few puts look for it, as each look passes over all maps. */
static void test_shortcut_without_memory(void **state) {
        MapFixture *f = *state;

        fill(f);
        f->arena.header->n_shortcut_pages = 0;
        f->arena.header->commit_allowance.value = 0;
        f->arena.find_allowance = find_no_allowance;
        f->actor.id = 1; /* the maintainer has no limit */
        n_asked = 0;
        fill(f);
        f->actor.id = 0;
        assert_int_equal(n_pages(f), 0);
        assert_in_range(n_asked, 1, N / 128);
}

static void test_shortcut_pages_go(void **state) {
        MapFixture *f = *state;
        uint32_t n;

        for (uint32_t k = 0; k < 4 * N; k++)
                put(f, k, k);
        n = n_pages(f);
        shm_shortcut_trim(&f->actor);
        assert_int_equal(n_pages(f), n);
        for (uint32_t k = 100; k < 4 * N; k++) {
                ShmMapKey key = make_key(f, &k);

                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        }
        assert_in_range(n_pages(f), 0, n / 2); /* deletes gave some back */
        shm_shortcut_trim(&f->actor);
        assert_in_range(n_pages(f), 0, n / 2);
        for (uint32_t k = 0; k < 4 * N; k++)
                assert_int_equal(get(f, &f->trie, k), k < 100 ? (int64_t) k : -ENOENT);
        fill(f);
        for (uint32_t k = 0; k < N; k++)
                assert_int_equal(get(f, &f->trie, k), k);
}

/* Few large entries come for many small ones, which are evicted: puts give pages back. */
static void test_shortcut_pages_go_with_evictions(void **state) {
        static const uint8_t large[4000];
        const ShmMapPut p = { .value = large, .value_size = sizeof(large), .epoch = SHM_EPOCH_CURRENT };
        MapFixture *f = *state;
        uint32_t n;

        fill(f);
        n = n_pages(f);
        TRIE_SET_OPTION(&f->trie, limit_bytes, shm_map_bytes(&f->trie));
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t k = N; k < 2 * N; k++) {
                ShmMapKey key = make_key(f, &k);

                assert_int_equal(shm_map_put(&f->actor, &f->trie, &key, &p, NULL), 0);
        }
        assert_in_range(n_pages(f), 0, n / 2);
}

#define test_of(_test) cmocka_unit_test_setup_teardown(_test, map_setup, map_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                test_of(test_shortcut_of_small_map),     test_of(test_shortcut_of_most),
                test_of(test_shortcut_of_changed_entry), test_of(test_shortcut_of_leaving_entry),
                test_of(test_shortcut_of_ended_entry),   test_of(test_shortcut_of_freed_entry),
                test_of(test_shortcut_of_two_maps),      test_of(test_shortcut_pages_go),
                test_of(test_shortcut_of_removed_root),  test_of(test_shortcut_of_old_tag),
                test_of(test_shortcut_without_memory),   test_of(test_shortcut_pages_go_with_evictions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
