/* Adds to the counter that the thread found last, which counts only if key, map and kind are those of the call. */
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
#include "shm/slab/pages.h"
#include "shm/slab/tags.h"
#include "tests/unit/shm/map-fixture.h"

typedef MapFixture Fixture;

/* All keys of these tests have one hash. */
static ShmMapKey key_of(const char *text) {
        return (ShmMapKey){ text, (uint32_t) strlen(text), 1 };
}

static int64_t add(Fixture *f, const ShmTrie *trie, const char *key, int64_t delta) {
        const ShmMapAdd a = { .delta = delta, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey k = key_of(key);
        int64_t sum;

        assert_int_equal(shm_map_add(&f->actor, trie, &k, &a, &sum), 0);
        return sum;
}

static void assert_found(Fixture *f, const ShmTrie *trie, const char *key) {
        ShmMapKey k = key_of(key);
        ShmTrieCursor c;
        ShmMapView view;

        assert_int_equal(shm_map_find(trie, &k, &c, &view), 0);
        assert_true(f->actor.found.leaf == view.handle);
}

static void test_add_same_hash(void **state) {
        Fixture *f = *state;

        for (int64_t i = 1; i <= 3; i++) {
                assert_int_equal(add(f, &f->trie, "a", 1), 2 * i - 1);
                assert_int_equal(add(f, &f->trie, "a", 1), 2 * i);
                assert_found(f, &f->trie, "a");
                assert_int_equal(add(f, &f->trie, "b", 10), 20 * i - 10);
                assert_int_equal(add(f, &f->trie, "b", 10), 20 * i);
                assert_found(f, &f->trie, "b");
        }
}

static void test_add_other_map(void **state) {
        Fixture *f = *state;
        uint64_t root;
        ShmTrie other;

        assert_int_equal(shm_trie_create(&f->actor, f->trie.epoch, &root), 0);
        assert_int_equal(shm_object_publish(&f->actor, root), 0);
        assert_int_equal(shm_trie_open(&other, &f->arena, root), 0);
        for (int64_t i = 1; i <= 3; i++) {
                assert_int_equal(add(f, &f->trie, "a", 1), 2 * i - 1);
                assert_int_equal(add(f, &f->trie, "a", 1), 2 * i);
                assert_found(f, &f->trie, "a");
                assert_int_equal(add(f, &other, "a", 10), 20 * i - 10);
                assert_int_equal(add(f, &other, "a", 10), 20 * i);
                assert_found(f, &other, "a");
        }
}

/* A counter is no token bucket. */
static void test_add_other_kind(void **state) {
        const ShmMapRate rate = { .burst_ns = 1000, .cost_ns = 1, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey k = key_of("a");
        Fixture *f = *state;
        uint64_t wait_ns;

        (void) add(f, &f->trie, "a", 1);
        (void) add(f, &f->trie, "a", 1);
        assert_found(f, &f->trie, "a");
        assert_int_equal(shm_map_limit(&f->actor, &f->trie, &k, &rate, &wait_ns), -EINVAL);
        assert_int_equal(add(f, &f->trie, "a", 1), 3);
}

static int add_by(Fixture *f, int64_t delta, int64_t initial, ShmMapAddMode mode, int64_t *ret) {
        const ShmMapAdd a = { .delta = delta, .initial = initial, .mode = mode, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey k = key_of("a");

        return shm_map_add(&f->actor, &f->trie, &k, &a, ret);
}

/* A sum that is out of range changes nothing, and makes no counter. */
static void test_add_out_of_range(void **state) {
        Fixture *f = *state;
        int64_t sum = 77;

        assert_int_equal(add_by(f, INT64_MIN, -1, SHM_MAP_ADD, &sum), -EOVERFLOW);
        assert_int_equal(add_by(f, 0, 0, SHM_MAP_ADD, &sum), 0);
        assert_int_equal(add_by(f, INT64_MAX, 0, SHM_MAP_ADD, &sum), 0);
        assert_true(sum == INT64_MAX);
        assert_int_equal(add_by(f, 1, 0, SHM_MAP_ADD, &sum), -EOVERFLOW);
        assert_int_equal(shm_map_add_at(&f->actor, &f->trie, f->actor.found.leaf, 1, &sum), -EOVERFLOW);
        assert_int_equal(add_by(f, 0, 0, SHM_MAP_ADD, &sum), 0);
        assert_true(sum == INT64_MAX);
        assert_int_equal(add_by(f, 1, 0, SHM_MAP_ADD_WRAP, &sum), 0);
        assert_true(sum == INT64_MIN);
        assert_int_equal(add_by(f, -1, 0, SHM_MAP_ADD, &sum), -EOVERFLOW);
}

static void test_add_set(void **state) {
        Fixture *f = *state;
        uint64_t leaf;
        int64_t sum;

        assert_int_equal(add_by(f, 5, 9, SHM_MAP_ADD_SET, &sum), 0);
        assert_int_equal(sum, 5);
        assert_int_equal(add(f, &f->trie, "a", 2), 7);
        leaf = f->actor.found.leaf;
        assert_int_equal(add_by(f, INT64_MIN, INT64_MIN, SHM_MAP_ADD_SET, &sum), 0);
        assert_int_equal(shm_map_add_at(&f->actor, &f->trie, leaf, 1, &sum), 0);
        assert_true(sum == INT64_MIN + 1);
}

/* Where the counter was are a value, and another counter. */
static void test_add_after_changes(void **state) {
        const ShmMapAdd a = { .delta = 1, .epoch = SHM_EPOCH_CURRENT };
        ShmMapPut put = { .value = "value", .value_size = 5, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey k = key_of("a");
        Fixture *f = *state;
        int64_t sum;

        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(add(f, &f->trie, "a", 5), 5);
                assert_int_equal(add(f, &f->trie, "a", 1), 6);
                assert_int_equal(shm_map_put(&f->actor, &f->trie, &k, &put, NULL), 0);
                assert_int_equal(shm_map_add(&f->actor, &f->trie, &k, &a, &sum), -EINVAL);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), 0);
                assert_int_equal(add(f, &f->trie, "a", 1), 1);
                assert_int_equal(add(f, &f->trie, "a", 1), 2);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), 0);
        }
}

/* `again`: the counter is found without a hash. */
static int64_t add_unhashed(Fixture *f, const char *key, bool again) {
        const ShmMapAdd a = { .delta = 1, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey k = { key, (uint32_t) strlen(key), SHM_CELL_HASH_LATER };
        int64_t sum;

        assert_int_equal(shm_map_add(&f->actor, &f->trie, &k, &a, &sum), 0);
        assert_true(k.hash == (again ? SHM_CELL_HASH_LATER : shm_hash(&f->arena, key, k.size)));
        return sum;
}

/* Whatever was added to before. */
static void test_add_unhashed_each(void **state) {
        const char *keys[] = { "a", "b", "ab", "aa", "", "a key that is longer than all of the others here" };
        enum { N = sizeof(keys) / sizeof(keys[0]) };
        Fixture *f = *state;
        int64_t sums[N];

        for (unsigned i = 0; i < N; i++)
                sums[i] = add_unhashed(f, keys[i], false);
        for (unsigned i = 0; i < N; i++) {
                for (unsigned k = 0; k < N; k++) {
                        (void) add(f, &f->trie, "another", 1);
                        (void) add(f, &f->trie, "another", 1);
                        assert_int_equal(add_unhashed(f, keys[i], false), ++sums[i]);
                        assert_int_equal(add_unhashed(f, keys[i], true), ++sums[i]);
                        assert_int_equal(add_unhashed(f, keys[k], i == k), ++sums[k]);
                }
        }
}

/* Drops all slabs without objects, and tags. */
static void drop_pages(Fixture *f) {
        ShmActor control;

        shm_actor_init_daemon(&control, &f->arena);
        shm_actor_enter(&f->actor);
        (void) shm_cache_drain(&f->actor);
        shm_actor_leave(&f->actor);
        for (uint32_t group = 0; group < f->arena.n_slabs / 64; group++)
                (void) shm_pages_drop(&control, group, UINT64_MAX);
}

/* A counter whose slab, and the page of whose tag, were given back: a look at it makes no page. */
static void test_add_after_pages_went(void **state) {
        const ShmMapAdd one = { .delta = 1, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey key = key_of("a");
        uint64_t others[64], before;
        Fixture *f = *state;
        int64_t sum;

        for (unsigned i = 0; i < 64; i++)
                assert_int_equal(shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &others[i], NULL),
                                 0);
        (void) add(f, &f->trie, "a", 1);
        assert_int_equal(add(f, &f->trie, "a", 1), 2);
        assert_true(slot_id_slab(shm_handle_slot(f->actor.found.leaf)) >= 2 * SHM_TAGS_PER_PAGE);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        for (unsigned i = 0; i < 64; i++)
                assert_int_equal(shm_object_free(&f->actor, others[i]), 0);
        drop_pages(f);

        before = shm_arena_resident_size(&f->arena);
        f->arena.read_only = true; /* a new counter is made nowhere */
        assert_int_equal(shm_map_add(&f->actor, &f->trie, &key, &one, &sum), -EROFS);
        f->arena.read_only = false;
        assert_int_equal(shm_arena_resident_size(&f->arena), before);
}

/* Changes as another thread makes them: this one knows nothing of them. */
static int64_t add_as_other(Fixture *f, int64_t delta) {
        ShmCellTurn kept = f->actor.turn;
        int64_t sum = add(f, &f->trie, "a", delta);

        f->actor.turn = kept;
        return sum;
}

static void test_add_in_turns(void **state) {
        const ShmCellTurn *turn = &((Fixture *) *state)->actor.turn;
        Fixture *f = *state;

        for (int64_t i = 1; i <= 5; i++)
                assert_int_equal(add(f, &f->trie, "a", 1), i);
        assert_int_equal(turn->value, 5);
        assert_int_equal(turn->n, 3); /* the first made it, and the second found it */
        assert_int_equal(turn->begun, 0);
        for (int64_t i = 1; i <= 3; i++) {
                assert_int_equal(add_as_other(f, 10), 11 * i + 5 - 1);
                assert_int_equal(add(f, &f->trie, "a", 1), 11 * i + 5);
                assert_int_equal(turn->n, 0);
                assert_true(turn->begun != 0);
        }
        (void) add(f, &f->trie, "a", 1);
        assert_int_equal(turn->n, 1);
}

/* A bucket that stays as it is was changed by nobody. */
static void test_limit_refused_in_turns(void **state) {
        const ShmMapRate rate = { .burst_ns = UINT64_C(1) << 60, .cost_ns = UINT64_C(1) << 60 };
        ShmMapKey k = key_of("a");
        Fixture *f = *state;
        uint64_t wait_ns;

        assert_int_equal(shm_map_limit(&f->actor, &f->trie, &k, &rate, &wait_ns), 0);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(shm_map_limit(&f->actor, &f->trie, &k, &rate, &wait_ns), 1);
        assert_int_equal(f->actor.turn.begun, 0);
}

/* A get takes a leaf's slot for as large as the one that it read last, until the leaf's bytes say that it is not. */
static void put_and_get(Fixture *f, const char *text, uint32_t size) {
        ShmMapKey key = { text, (uint32_t) strlen(text), shm_hash(&f->arena, text, strlen(text)) };
        static const char value[1000];
        char buffer[sizeof(value)];
        ShmMapPut put = {
                .mode = SHM_MAP_PUT, .value = value, .value_size = size, .epoch = SHM_EPOCH_CURRENT
        };

        assert_int_equal(shm_map_put(&f->actor, &f->trie, &key, &put, NULL), 0);
        assert_int_equal(shm_map_get(&f->trie, &key, buffer, sizeof(buffer), NULL), size);
}

/* The word of a counter that stands at 0 has the bytes of no end. */
static void test_counters_beside_other_sizes(void **state) {
        static const uint32_t sizes[] = { 40, 60, 80, 110 };
        Fixture *f = *state;
        char name[48];

        for (size_t n = 4; n < 44; n += 8)
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 8; i++) {
                        int64_t number = -1;
                        ShmMapKey key;

                        memset(name, 'a' + (int) (n / 8), sizeof(name));
                        (void) snprintf(name + n, sizeof(name) - n, "%zu", i);
                        key = (ShmMapKey){ name, (uint32_t) strlen(name),
                                           shm_hash(&f->arena, name, strlen(name)) };
                        assert_int_equal(shm_map_add(&f->actor, &f->trie, &key,
                                                     &(ShmMapAdd){ .epoch = SHM_EPOCH_CURRENT }, &number),
                                         0);
                        put_and_get(f, "other", sizes[i % 4]);
                        assert_int_equal(shm_map_get(&f->trie, &key, &number, sizeof(number), NULL), 8);
                        assert_int_equal(number, 0);
                }
}

/* A small entry in slot 0 of its slab, which is looked at as if it were as large as another, counts as what it is. */
static void test_bytes_beside_other_sizes(void **state) {
        ShmMapKey one = { "one", 3, 0 };
        Fixture *f = *state;
        uint64_t bytes;

        one.hash = shm_hash(&f->arena, one.bytes, one.size);
        put_and_get(f, "large", 700);
        put_and_get(f, "small", 3);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie,
                                        &(ShmMapKey){ "small", 5, shm_hash(&f->arena, "small", 5) }, 0),
                         0);
        shm_tally_flush(&f->actor);
        bytes = shm_map_bytes(&f->trie);
        for (int i = 0; i < 200; i++) {
                put_and_get(f, "one", 3);
                put_and_get(f, "large", 700);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &one, 0), 0);
        }
        shm_tally_flush(&f->actor);
        assert_int_equal(shm_map_bytes(&f->trie), bytes);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_counters_beside_other_sizes, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_bytes_beside_other_sizes, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_same_hash, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_other_map, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_other_kind, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_out_of_range, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_set, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_after_changes, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_unhashed_each, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_after_pages_went, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_add_in_turns, map_setup, map_teardown),
                cmocka_unit_test_setup_teardown(test_limit_refused_in_turns, map_setup, map_teardown),
        };

        return cmocka_run_group_tests_name("map-cell", tests, NULL, NULL);
}
