/* Maps on a trie, in one thread. Keys are given hashes of the test's choosing, also equal ones. */
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
#include "shm/map/leaf/chain.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/stats/stats.h"
#include "tests/unit/shm/map-fixture.h"
#include "shm/arena/root.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/api/entry-cost.h"
#include "tests/util/map-options.h"

typedef struct Fixture {
        ShmArena arena;
        ShmActor actor;
        ShmTrie trie;
        uint64_t root;
} Fixture;

static void setup_map(Fixture *f) {
        uint32_t epoch;

        assert_int_equal(shm_actor_init(&f->actor, &f->arena, 0, 1), 0);
        assert_int_equal(test_reserve_epoch(&f->arena, &epoch), 0);
        assert_int_equal(shm_trie_create(&f->actor, epoch, &f->root), 0);
        assert_int_equal(shm_root_set(&f->arena, "map.test", 0, f->root), 0);
        assert_true(shm_trie_contains(&f->arena, SHM_NOTE_NAMED_ROOT, 0, f->root));
        assert_int_equal(shm_object_publish(&f->actor, f->root), 0);
        assert_int_equal(shm_trie_open(&f->trie, &f->arena, f->root), 0);
}

static int setup(void **state) {
        Fixture *f = *state = calloc(1, sizeof(*f));

        map_arena_create(&f->arena, UINT64_C(64) << 20);
        setup_map(f);
        return 0;
}

/* A value of 2000 bytes is in two slots of 1024. */
static int setup_few_classes(void **state) {
        Fixture *f = *state = calloc(1, sizeof(*f));
        ShmGeometry g = {
                .slabs_size = UINT64_C(4) << 20,
                .n_records = 4,
                .n_epochs = 4,
                .n_classes = 3,
                .class_size = { 64, 1024, SHM_SLAB_SIZE },
        };

        assert_int_equal(shm_arena_create(&f->arena, &g, NULL), 0);
        setup_map(f);
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        map_actor_leave(&f->actor);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}

static ShmMapKey key_of(Fixture *f, const char *text) {
        return (ShmMapKey){ text, (uint32_t) strlen(text), shm_hash(&f->arena, text, strlen(text)) };
}

static int put_mode(Fixture *f, ShmMapKey key, const char *value, uint32_t epoch, ShmMapMode mode,
                    uint64_t expected, uint64_t *ret_version) {
        ShmMapPut p = {
                .mode = mode,
                .expected = expected,
                .value = value,
                .value_size = (uint32_t) strlen(value),
                .epoch = epoch,
        };

        return shm_map_put(&f->actor, &f->trie, &key, &p, ret_version);
}

static int put(Fixture *f, const char *key, const char *value) {
        return put_mode(f, key_of(f, key), value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL);
}

static void assert_value(Fixture *f, ShmMapKey key, const char *value) {
        char buffer[8192];
        ssize_t n = shm_map_get(&f->trie, &key, buffer, sizeof(buffer), NULL);

        if (!value) {
                assert_int_equal(n, -ENOENT);
                return;
        }
        assert_int_equal(n, strlen(value));
        assert_memory_equal(buffer, value, (size_t) n);
}

static void test_map_put_get_delete(void **state) {
        Fixture *f = *state;
        ShmMapKey a = key_of(f, "a"), empty = key_of(f, "");
        char small[2];

        assert_value(f, a, NULL);
        assert_int_equal(put(f, "a", "one"), 0);
        assert_value(f, a, "one");
        assert_int_equal(shm_map_get(&f->trie, &a, small, sizeof(small), NULL), -EMSGSIZE);
        assert_int_equal(put(f, "a", "a value of another size class altogether, as it is longer"), 0);
        assert_value(f, a, "a value of another size class altogether, as it is longer");
        assert_int_equal(put(f, "", ""), 0);
        assert_value(f, empty, "");
        assert_int_equal(shm_map_count(&f->trie), 2);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &a, 0), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &a, 0), -ENOENT);
        assert_value(f, a, NULL);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &empty, 0), 0);
        assert_int_equal(shm_map_count(&f->trie), 0);
}

/*
 * A get guesses the size of a leaf's slot. Here the guess is 64 where slots have 128, so that it leads to the leaf of
 * another key, or to an earlier value of the same key.
 */
static void test_map_sizes(void **state) {
        char keys[300][8], large[65] = { 0 };
        Fixture *f = *state;

        memset(large, 'x', sizeof(large) - 1);
        for (unsigned turn = 0; turn < 2; turn++)
                for (unsigned i = 0; i < 300; i++) {
                        (void) snprintf(keys[i], sizeof(keys[i]), "%u", i);
                        large[0] = (char) ('a' + turn);
                        assert_int_equal(put(f, keys[i], i % 3 == 0 ? keys[i] : large), 0);
                }
        for (unsigned i = 0; i < 300; i += 3)
                assert_value(f, key_of(f, keys[i]), keys[i]);
        for (unsigned i = 0; i < 300; i++)
                assert_value(f, key_of(f, keys[i]), i % 3 == 0 ? keys[i] : large);
}

static void test_map_put_modes(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "k");
        uint64_t v1, v2;

        assert_int_equal(put_mode(f, k, "x", 0, SHM_MAP_UPDATE, 0, NULL), -ENOENT);
        assert_int_equal(put_mode(f, k, "x", 0, SHM_MAP_REPLACE, 77, NULL), -EAGAIN);
        assert_int_equal(put_mode(f, k, "1", 0, SHM_MAP_REPLACE, 0, &v1), 0);
        assert_int_equal(put_mode(f, k, "x", 0, SHM_MAP_REPLACE, 0, NULL), -EAGAIN);
        assert_int_equal(put_mode(f, k, "x", 0, SHM_MAP_INSERT, 0, NULL), -EEXIST);
        assert_int_equal(put_mode(f, k, "2", 0, SHM_MAP_REPLACE, v1, &v2), 0);
        assert_int_equal(put_mode(f, k, "x", 0, SHM_MAP_REPLACE, v1, NULL), -EAGAIN);
        assert_value(f, k, "2");
        assert_int_equal(put_mode(f, k, "3", 0, SHM_MAP_UPDATE, 0, NULL), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, v2), -EAGAIN);
        assert_value(f, k, "3");
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), 0);
        assert_int_equal(put_mode(f, k, "4", 0, SHM_MAP_INSERT, 0, NULL), 0);
        assert_value(f, k, "4");
}

static void test_map_put_errors(void **state) {
        Fixture *f = *state;
        size_t max = shm_map_size_max(&f->arena), value_max = shm_map_value_max(&f->trie);
        char *big = malloc(value_max + 2);
        uint32_t next;

        memset(big, 'x', value_max + 1);
        big[value_max + 1] = 0;
        assert_int_equal(put(f, "k", big), -E2BIG);
        big[max - 1] = 0;
        assert_int_equal(put(f, "k", big), 0);
        assert_value(f, key_of(f, "k"), big);
        free(big);

        assert_int_equal(put_mode(f, key_of(f, "j"), "x", 9, SHM_MAP_PUT, 0, NULL), -EINVAL);
        assert_int_equal(put_mode(f, key_of(f, "j"), "x", 0 | 99 << 8, SHM_MAP_PUT, 0, NULL), -ESTALE);
        assert_int_equal(shm_epoch_advance(&f->arena, &next), 0);
        assert_int_equal(put_mode(f, key_of(f, "j"), "x", 0, SHM_MAP_PUT, 0, NULL), -ESHUTDOWN);
        assert_value(f, key_of(f, "j"), NULL);
        for (uint64_t i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(shm_actor_note(&f->actor, i + 1, 0, 0), 0);
        assert_int_equal(put(f, "j", "x"), -ENOBUFS);
        assert_int_equal(put(f, "k", "x"), -ENOBUFS);
        /* One for the leaf, none for the old one: the new one must not stay behind. */
        assert_int_equal(shm_actor_unnote(&f->actor, 1), 0);
        assert_int_equal(put(f, "k", "x"), -ENOBUFS);
        assert_int_equal(shm_actor_note(&f->actor, 1, 0, 0), 0);
        for (uint64_t i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(shm_actor_unnote(&f->actor, i + 1), 0);
        assert_int_equal(put(f, "k", "x"), 0);
}

/* A large value: one that does not replace the other needs no memory to be told so. */
static void test_map_put_without_memory(void **state) {
        Fixture *f = *state;
        ShmMapKey large = key_of(f, "large"), absent = key_of(f, "absent");
        size_t size = 2 * shm_map_size_max(&f->arena);
        char *value = malloc(size + 1), *got = malloc(size);
        uint64_t handle, version;
        void *object;

        memset(value, 'x', size);
        value[size] = 0;
        assert_int_equal(put_mode(f, large, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, &version), 0);
        while (shm_object_alloc(&f->actor, 1 + shm_map_size_max(&f->arena), SHM_EPOCH_CURRENT, NULL, &handle,
                                &object) == 0)
                ;
        memset(value, 'y', size);
        assert_int_equal(put(f, "large", value), -ENOMEM);
        assert_int_equal(put_mode(f, large, value, SHM_EPOCH_CURRENT, SHM_MAP_INSERT, 0, NULL), -EEXIST);
        assert_int_equal(put_mode(f, absent, value, SHM_EPOCH_CURRENT, SHM_MAP_UPDATE, 0, NULL), -ENOENT);
        assert_int_equal(put_mode(f, large, value, SHM_EPOCH_CURRENT, SHM_MAP_REPLACE, version + 2, NULL),
                         -EAGAIN);
        assert_int_equal(shm_map_get(&f->trie, &large, got, size, NULL), size);
        memset(value, 'x', size);
        assert_memory_equal(got, value, size);
        free(value);
        free(got);
}

static uint32_t slab_of(uint64_t handle) {
        return slot_id_slab(shm_handle_slot(handle));
}

/* Allocates until there is no memory. Stores the first n_max handles. */
static void fill(Fixture *f, size_t size, uint32_t epoch, uint64_t *ret_handles, size_t n_max) {
        uint64_t handle;

        for (size_t n = 0; shm_object_alloc(&f->actor, size, epoch, NULL, &handle, NULL) == 0; n++)
                if (n < n_max)
                        ret_handles[n] = handle;
}

/* One slab is empty, and n slots are free beside other objects of the size of a leaf: those from `other` on. */
static void fill_but_last_slab(Fixture *f, size_t leaf_size, unsigned other, unsigned n) {
        uint64_t handles[200];

        fill(f, leaf_size, SHM_EPOCH_CURRENT, handles, 200);
        fill(f, 64, f->trie.epoch, NULL, 0);
        for (unsigned i = 0; i < 200; i++)
                if (i - other < n || slab_of(handles[i]) == slab_of(handles[100]))
                        assert_int_equal(shm_object_free(&f->actor, handles[i]), 0);
        shm_actor_enter(&f->actor);
        assert_true(shm_cache_drain(&f->actor));
        shm_actor_leave(&f->actor);
        assert_int_equal(f->arena.header->n_free.value, 1);
}

/* That is enough for a leaf and an inner node. */
static void put_into_last_slab(Fixture *f, ShmCacheMode mode, size_t value_size, unsigned other, unsigned n) {
        const uint64_t hash = 12345;
        ShmMapKey node = { "node", 4, hash ^ UINT64_C(1) << 52 }, first = { "first", 5, hash },
                  second = { "second", 6, hash ^ UINT64_C(1) << 50 };
        char value[2000] = {};

        f->actor.mode = mode;
        memset(value, 'x', value_size);
        assert_int_equal(put_mode(f, node, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        assert_int_equal(put_mode(f, first, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        fill_but_last_slab(f, n > 1 ? 1024 : 128, other, n);
        assert_int_equal(put_mode(f, second, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        assert_value(f, second, value);
        assert_int_equal(f->actor.mode, mode);
}

/* That is enough for a value in two pieces. */
static void put_pieces_into_last_slab(Fixture *f, ShmCacheMode mode, unsigned other) {
        static char value[SHM_SLAB_SIZE + 1931];
        ShmMapKey key = key_of(f, "key");

        f->actor.mode = mode;
        memset(value, 'x', sizeof(value) - 1);
        fill_but_last_slab(f, shm_chain_head_size(&f->arena, key.size, sizeof(value) - 1, false), other, 1);
        assert_int_equal(put_mode(f, key, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        assert_value(f, key, value);
        assert_int_equal(f->actor.mode, mode);
}

/* The cache for leaves takes slots of both slabs, and those of the empty one are on top. */
static void test_map_put_into_last_slab(void **state) {
        put_into_last_slab(*state, SHM_CACHE_ON, 79, 0, 1);
}

/* The empty slab is still in the set of slabs with slots for leaves, before the other. */
static void test_map_put_into_last_slab_uncached(void **state) {
        put_into_last_slab(*state, SHM_CACHE_OFF, 79, 199, 1);
}

/* Both slots that the leaf and the rest of its value had in the empty slab are in the cache when they are freed. */
static void test_map_put_into_last_slab_again(void **state) {
        put_into_last_slab(*state, SHM_CACHE_ON, 1999, 0, 2);
}

static void test_map_put_pieces_into_last_slab(void **state) {
        put_pieces_into_last_slab(*state, SHM_CACHE_ON, 0);
}

static void test_map_put_pieces_into_last_slab_uncached(void **state) {
        put_pieces_into_last_slab(*state, SHM_CACHE_OFF, 199);
}

/* One slab is empty, and the value needs three: to spare that slab, the put would copy all of the value once more. */
static void test_map_put_beyond_last_slab(void **state) {
        static char value[3 * SHM_SLAB_SIZE + 1];
        const uint64_t *n_failures;
        ShmMapKey key;
        Fixture *f = *state;
        uint64_t before;

        key = key_of(f, "key");
        f->actor.mode = SHM_CACHE_ON;
        memset(value, 'x', sizeof(value) - 1);
        fill_but_last_slab(f, shm_chain_head_size(&f->arena, key.size, sizeof(value) - 1, false), 0, 1);
        n_failures = &f->actor.record->counters[SHM_COUNT_FAILURES];
        before = *n_failures;
        assert_int_equal(put_mode(f, key, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), -ENOMEM);
        assert_int_equal(*n_failures, before + 1);
        assert_int_equal(f->actor.mode, SHM_CACHE_ON);
}

/* The value takes two slabs, and the nodes of the index two more, since they have two sizes. Nothing else is free. */
static void test_map_put_into_whole_slabs(void **state) {
        enum { SIZE = 7440, N_SLABS = 2 + 2 };
        static char value[SIZE + 1];
        ShmMapKey first = { "first", 5, 12345 }, second = { "second", 6, 12345 ^ UINT64_C(1) << 50 };
        uint64_t slabs[N_SLABS];
        Fixture *f = *state;

        static_assert((SIZE + 6) * 11 <= 2 * SHM_SLAB_SIZE * 10, "1.1 x key and value are two slabs");
        f->actor.mode = SHM_CACHE_OFF;
        memset(value, 'x', SIZE);
        assert_int_equal(put_mode(f, first, "1", SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        fill(f, SHM_SLAB_SIZE, SHM_EPOCH_CURRENT, slabs, N_SLABS);
        fill(f, 64, f->trie.epoch, NULL, 0); /* beside the root */
        for (unsigned i = 0; i < N_SLABS; i++) {
                assert_int_equal(shm_object_free(&f->actor, slabs[i]), 0);
                assert_int_equal(put_mode(f, second, value, SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL),
                                 i + 1 < N_SLABS ? -ENOMEM : 0);
        }
        assert_int_equal(f->arena.header->n_free.value, 0);
        assert_value(f, second, value);
}

/* Keys of one hash share buckets: each is found, deleted and put again by itself. */
static void test_map_equal_hashes(void **state) {
        enum { N = 40 };
        Fixture *f = *state;
        char names[N][8];
        ShmMapKey keys[N];

        for (unsigned i = 0; i < N; i++) {
                snprintf(names[i], sizeof(names[i]), "k%u", i);
                keys[i] = (ShmMapKey){ names[i], (uint32_t) strlen(names[i]), 12345 };
                assert_int_equal(put_mode(f, keys[i], names[i], 0, SHM_MAP_INSERT, 0, NULL), 0);
        }
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = round; i < N; i += 3)
                        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &keys[i], 0), 0);
                for (unsigned i = 0; i < N; i++)
                        assert_value(f, keys[i], i % 3 == round ? NULL : names[i]);
                for (unsigned i = round; i < N; i += 3)
                        assert_int_equal(put_mode(f, keys[i], names[i], 0, SHM_MAP_INSERT, 0, NULL), 0);
                for (unsigned i = 0; i < N; i++)
                        assert_int_equal(put_mode(f, keys[i], names[i], 0, SHM_MAP_INSERT, 0, NULL), -EEXIST);
                assert_int_equal(shm_map_count(&f->trie), N);
        }
}

/* A key that comes and goes takes no more room than one that stays. */
static void test_map_equal_hashes_come_and_go(void **state) {
        Fixture *f = *state;
        ShmMapKey a = { "a", 1, 5 }, b = { "b", 1, 5 };

        assert_int_equal(put_mode(f, a, "stays", 0, SHM_MAP_INSERT, 0, NULL), 0);
        for (unsigned i = 0; i < 5000; i++) {
                assert_int_equal(put_mode(f, b, "goes", 0, SHM_MAP_INSERT, 0, NULL), 0);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &b, 0), 0);
        }
        assert_value(f, a, "stays");
        assert_value(f, b, NULL);
}

static uint64_t version_of(Fixture *f, ShmMapKey key) {
        char buffer[4096];
        ShmMapView view;

        assert_true(shm_map_get(&f->trie, &key, buffer, sizeof(buffer), &view) >= 0);
        return view.handle;
}

static void test_map_stale_is_absent(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "k");
        uint64_t stale;

        assert_int_equal(put(f, "k", "1"), 0);
        stale = version_of(f, k);
        assert_int_equal(shm_object_free(&f->actor, stale), 0);
        assert_value(f, k, NULL);
        assert_int_equal(shm_map_count(&f->trie), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), -ENOENT);
        assert_int_equal(put_mode(f, k, "2", 0, SHM_MAP_REPLACE, stale, NULL), -EAGAIN);
        assert_int_equal(put_mode(f, k, "2", 0, SHM_MAP_REPLACE, 0, NULL), 0);
        assert_value(f, k, "2");
}

/* In a bucket: a put takes a stale entry's word out of use, and the key has one word all the same. */
static void test_map_equal_hashes_stale(void **state) {
        Fixture *f = *state;
        ShmMapKey a = { "a", 1, 5 }, b = { "b", 1, 5 }, c = { "c", 1, 5 };
        ShmTrieCursor before;
        ShmMapView view;

        assert_int_equal(put_mode(f, a, "1", 0, SHM_MAP_INSERT, 0, NULL), 0);
        assert_int_equal(put_mode(f, b, "2", 0, SHM_MAP_INSERT, 0, NULL), 0);
        assert_int_equal(put_mode(f, c, "3", 0, SHM_MAP_INSERT, 0, NULL), 0);
        assert_int_equal(shm_map_find(&f->trie, &b, &before, &view), 0);
        assert_int_equal(shm_object_free(&f->actor, before.value), 0);
        assert_value(f, b, NULL);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &b, 0), -ENOENT);
        assert_true(*before.word == before.raw);

        assert_int_equal(put_mode(f, b, "4", 0, SHM_MAP_PUT, 0, NULL), 0);
        assert_true(*before.word == (SHM_TRIE_GONE ^ shm_trie_seal(before.node)));
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &before, SHM_TRIE_GONE), SHM_TRIE_E_CHANGED);
        assert_value(f, a, "1");
        assert_value(f, b, "4");
        assert_value(f, c, "3");
        assert_int_equal(shm_map_count(&f->trie), 3);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &b, 0), 0);
        assert_value(f, b, NULL);
        assert_value(f, c, "3");
        assert_int_equal(put_mode(f, b, "5", 0, SHM_MAP_INSERT, 0, NULL), 0);
        assert_int_equal(shm_map_count(&f->trie), 3);
}

static ssize_t expire(Fixture *f, uint32_t epoch, uint32_t slice) {
        ShmTrieScan scan = {};
        ssize_t n = 0, k;

        while (!scan.done) {
                k = shm_map_expire(&f->actor, &f->trie, epoch, &scan, slice);
                assert_true(k >= 0);
                n += k;
        }
        return n;
}

static void test_map_expire(void **state) {
        enum { N = 3000 };
        Fixture *f = *state;
        uint32_t first = shm_epoch_current(&f->arena), second;
        char name[16];

        for (unsigned i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "%u", i);
                if (i == N / 2)
                        assert_int_equal(shm_epoch_advance(&f->arena, &second), 0);
                assert_int_equal(put(f, name, name), 0);
        }
        assert_int_equal(shm_object_free(&f->actor, version_of(f, key_of(f, "7"))), 0);
        assert_int_equal(expire(f, first + (1 << 8), 10), 0);
        assert_int_equal(expire(f, first, 10), N / 2 - 1);
        assert_int_equal(shm_map_count(&f->trie), N / 2);
        assert_value(f, key_of(f, "100"), NULL);
        assert_value(f, key_of(f, "2000"), "2000");
        assert_int_equal(expire(f, second & 0xff, 1000), N / 2);
        assert_int_equal(shm_map_count(&f->trie), 0);
}

static void assert_totals(Fixture *f, uint64_t entries, uint64_t bytes, uint64_t inserts, uint64_t deletes) {
        ShmMapTotals t;

        shm_map_totals(&f->arena, f->trie.map - 1, &t);
        assert_int_equal(t.entries, entries);
        assert_int_equal(t.bytes, bytes);
        assert_int_equal(t.inserts, inserts);
        assert_int_equal(t.deletes, deletes);
}

/* A thread keeps to itself how far the bytes in the map's state are off, up to a bound. */
static void assert_bytes_near(Fixture *f, uint64_t most) {
        ShmMapTotals t;

        shm_map_counts(&f->arena, f->trie.map - 1, &t);
        assert_in_range(t.bytes - shm_map_bytes(&f->trie), 0, most);
}

static void test_map_bytes(void **state) {
        const uint64_t limits[] = { 0, 64 << 20, 1 << 20 };
        Fixture *f = *state;
        char name[16];

        shm_map_attach(&f->trie);
        for (unsigned k = 0; k < 3; k++) {
                uint64_t share = limits[k] / 64 / shm_arena_n_records_ever(&f->arena);

                TRIE_SET_OPTION(&f->trie, limit_bytes, limits[k]);
                for (unsigned i = 0; i < 2000; i++) {
                        snprintf(name, sizeof(name), "%u:%u", k, i);
                        assert_int_equal(put(f, name, name), 0);
                        assert_bytes_near(f, limits[k] == 0 ? SHM_TALLY_BYTES : share);
                }
        }
}

static void test_map_totals(void **state) {
        Fixture *f = *state;
        ShmMapKey a;

        shm_map_attach(&f->trie);
        a = key_of(f, "a");
        assert_totals(f, 0, 0, 0, 0);
        assert_int_equal(put(f, "a", "1"), 0);
        assert_int_equal(put(f, "b", "1"), 0);
        assert_totals(f, 2, 2 * ENTRY_COST(64), 2, 0);
        assert_int_equal(put(f, "a", "a value that makes the entry larger than the smallest class"), 0);
        assert_totals(f, 2, ENTRY_COST(64) + ENTRY_COST(96), 2, 0);
        assert_int_equal(put_mode(f, a, "2", SHM_EPOCH_CURRENT, SHM_MAP_INSERT, 0, NULL), -EEXIST);
        assert_totals(f, 2, ENTRY_COST(64) + ENTRY_COST(96), 2, 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &a, 0), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &a, 0), -ENOENT);
        assert_totals(f, 1, ENTRY_COST(64), 2, 1);
        assert_int_equal(expire(f, shm_epoch_current(&f->arena), 10), 1);
        assert_totals(f, 0, 0, 2, 2);
        assert_int_equal(f->actor.record->map, 0);
}

static uint64_t index_size(Fixture *f, uint32_t n_words) {
        ShmTrieSize size = {};
        uint32_t n_steps = 1;

        while (!shm_trie_size_step(&f->trie, &size, n_words))
                n_steps++;
        assert_true(size.n_words <= (uint64_t) n_words * n_steps + 1);
        return size.bytes;
}

/* Root and inner nodes are all that the epoch of the index has. */
static void assert_index_size(Fixture *f) {
        ShmStats stats;

        shm_stats(&f->arena, &stats);
        assert_int_equal(index_size(f, 7), stats.epochs[f->trie.epoch & 0xff].live_size);
        assert_int_equal(index_size(f, UINT32_MAX), stats.epochs[f->trie.epoch & 0xff].live_size);
}

static void test_trie_size(void **state) {
        ShmMapKey same = { "one", 3, 5 }, same2 = { "two", 3, 5 };
        Fixture *f = *state;
        char key[16];

        assert_int_equal(index_size(f, 1), 64);
        for (int i = 0; i < 3000; i++) {
                (void) snprintf(key, sizeof(key), "%d", i);
                assert_int_equal(put(f, key, key), 0);
        }
        /* down to a bucket, which has words of another kind */
        assert_int_equal(put_mode(f, same, "1", SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        assert_int_equal(put_mode(f, same2, "2", SHM_EPOCH_CURRENT, SHM_MAP_PUT, 0, NULL), 0);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &same2, 0), 0);
        assert_index_size(f);
        for (int i = 0; i < 2900; i++) {
                ShmMapKey k;

                (void) snprintf(key, sizeof(key), "%d", i);
                k = key_of(f, key);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), 0);
        }
        assert_index_size(f);
}

/* The size of what was revoked is not known any more: the sweep counts what is left. */
static void test_map_totals_after_revocation(void **state) {
        Fixture *f = *state;
        ShmMapSweep sweep = {};

        shm_map_attach(&f->trie);
        for (unsigned i = 0; i < 100; i++) {
                char name[16];

                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name), 0);
                if (i % 2)
                        assert_int_equal(shm_object_free(&f->actor, version_of(f, key_of(f, name))), 0);
        }
        while (!shm_map_sweep_step(&f->actor, &sweep, 7))
                ;
        assert_totals(f, 50, 50 * ENTRY_COST(64), 100, 50);
}

/* After a revocation all maps are swept. Nobody died: entries that come meanwhile do not make the count wrong. */
static void test_map_totals_sweep_beside_puts(void **state) {
        Fixture *f = *state;
        ShmMapSweep sweep = {};
        ShmMapTotals totals;

        shm_map_attach(&f->trie);
        for (unsigned i = 0; i < 300; i++) {
                char name[16];

                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name), 0);
                if (i == 200)
                        (void) shm_map_sweep_step(&f->actor, &sweep, 7);
        }
        while (!shm_map_sweep_step(&f->actor, &sweep, 7))
                ;
        shm_map_totals(&f->arena, f->trie.map - 1, &totals);
        assert_int_equal(totals.entries, 300);
}

static void sweep_all(Fixture *f, ShmMapSweep sweep) {
        while (!shm_map_sweep_step(&f->actor, &sweep, 7))
                ;
}

static uint64_t n_counted(Fixture *f) {
        ShmMapTotals totals;

        shm_map_totals(&f->arena, f->trie.map - 1, &totals);
        return totals.entries;
}

/* As repair does: somebody died in a change of the map. */
static void somebody_died(Fixture *f) {
        const ShmRecord dead = { .map = f->trie.map };

        shm_map_miscounted(&f->arena, &dead);
}

static void put_numbers(Fixture *f, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                char name[16];

                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name), 0);
        }
}

/* While somebody dies in each step, a process waits for the sweep that it asked for, and for no later one. */
static void test_map_sweeps_beside_deaths(void **state) {
        Fixture *f = *state;
        ShmMapSweeps sweeps = {};
        uint32_t miscounts;
        unsigned n = 0;

        shm_map_attach(&f->trie);
        put_numbers(f, 100);
        somebody_died(f);
        shm_map_sweeps_step(&f->actor, &sweeps, 7);
        somebody_died(f);
        shm_map_sweeps_ask(&sweeps);
        miscounts = shm_map_miscounts(&f->arena);
        for (; !shm_map_sweeps_ended(&sweeps, sweeps.asked, miscounts); n++) {
                assert_in_range(n, 0, 100);
                shm_map_sweeps_step(&f->actor, &sweeps, 7);
                somebody_died(f);
        }
        assert_true(shm_map_sweeps_due(&f->arena, &sweeps));
        for (n = 0; shm_map_sweeps_due(&f->arena, &sweeps); n++) {
                assert_in_range(n, 0, 100);
                shm_map_sweeps_step(&f->actor, &sweeps, 7);
        }
        assert_false(shm_map_is_miscounted(&f->arena, f->trie.map - 1));
}

/* A thread is stopped after its entry was linked, and goes on after a walk that met it: a later walk corrects that. */
static void test_map_totals_sweep_beside_stopped(void **state) {
        Fixture *f = *state;
        ShmRecord *record = shm_arena_record(&f->arena, 0);

        shm_map_attach(&f->trie);
        put_numbers(f, 10);
        somebody_died(f);
        record->map = f->trie.map;
        f->trie.map = 0;
        assert_int_equal(put(f, "linked", ""), 0);
        shm_map_attach(&f->trie);
        sweep_all(f, (ShmMapSweep){});
        f->arena.header->maps[f->trie.map - 1].counts[SHM_MAP_INSERTS]++;
        record->map = 0;
        sweep_all(f, (ShmMapSweep){});
        assert_int_equal(n_counted(f), 11);
}

/* Somebody died in a change, and others change the map while its entries are counted. */
static void count_roughly(Fixture *f) {
        ShmMapSweep sweep = { .miscounted_only = true };

        shm_map_attach(&f->trie);
        put_numbers(f, 100);
        somebody_died(f);
        (void) shm_map_sweep_step(&f->actor, &sweep, 7);
        put_numbers(f, 200);
        sweep_all(f, sweep);
}

/* Whether the map is to be counted once more, by a look at this time. */
static bool is_counted_again(Fixture *f, uint64_t ms) {
        uint32_t before = shm_map_miscounts(&f->arena);

        shm_map_count_again(&f->arena, ms);
        return shm_map_miscounts(&f->arena) != before;
}

/* A count beside changes is off by some of them. It is made again when nobody has changed the map for two seconds. */
static void test_map_count_again_quiet(void **state) {
        Fixture *f = *state;

        count_roughly(f);
        assert_int_not_equal(n_counted(f), 200);
        assert_false(is_counted_again(f, 1000));
        assert_false(is_counted_again(f, 2999));
        put_numbers(f, 201);
        assert_false(is_counted_again(f, 3000));
        assert_false(is_counted_again(f, 5003));
        /* The hashes decide how rough the count is: it is of 201 to 251 entries, for which this is 4 or 5 ms more. */
        assert_true(is_counted_again(f, 5005));
        assert_false(is_counted_again(f, 9000)); /* that count has not been made yet */
        sweep_all(f, (ShmMapSweep){ .miscounted_only = true });
        assert_int_equal(n_counted(f), 201);
        assert_false(is_counted_again(f, 20000)); /* it was exact */
}

/* Nothing is asked for while a thread stands still in a change: that count would be rough, too. */
static void test_map_count_again_stopped(void **state) {
        Fixture *f = *state;
        ShmRecord *record = shm_arena_record(&f->arena, 0);

        count_roughly(f);
        assert_false(is_counted_again(f, 1000));
        record->map = f->trie.map;
        assert_false(is_counted_again(f, 9000));
        record->map = 0;
        assert_true(is_counted_again(f, 9000));
}

/* The larger the map, the longer it must be quiet: a map that is changed now and then is not counted all the time. */
static void test_map_count_again_large(void **state) {
        Fixture *f = *state;

        count_roughly(f);
        f->arena.header->maps[f->trie.map - 1].counts[SHM_MAP_MISCOUNTED] += 1000000;
        assert_false(is_counted_again(f, 1000));
        assert_false(is_counted_again(f, 22000));
        assert_true(is_counted_again(f, 23100));
}

/* A map that is no more is not counted again and again. */
static void test_map_count_again_gone(void **state) {
        Fixture *f = *state;

        count_roughly(f);
        assert_int_equal(shm_root_set(&f->arena, "map.test", f->root, 0), 0);
        assert_false(is_counted_again(f, 1000));
        assert_true(is_counted_again(f, 9000));
        sweep_all(f, (ShmMapSweep){ .miscounted_only = true });
        assert_false(is_counted_again(f, 19000));
        assert_false(is_counted_again(f, 29000));
}

/* A map is made anew in the midst of a walk: what the walk met are not the new one's entries. */
static void test_map_totals_sweep_beside_new_map(void **state) {
        Fixture *f = *state;
        ShmMapCensus census;
        ShmMapSweep sweep = {};
        uint64_t root;

        shm_map_attach(&f->trie);
        put_numbers(f, 300);
        somebody_died(f);
        for (unsigned i = 0; i < 10; i++)
                assert_false(shm_map_sweep_step(&f->actor, &sweep, 7));

        assert_int_equal(shm_trie_create(&f->actor, f->trie.epoch, &root), 0);
        shm_map_census_begin(&f->arena, f->trie.map - 1, &census);
        assert_int_equal(shm_root_set(&f->arena, "map.test", f->root, root), 0);
        shm_map_census_drop(&f->arena, f->trie.map - 1, &census);
        assert_int_equal(shm_object_publish(&f->actor, root), 0);
        assert_int_equal(shm_trie_open(&f->trie, &f->arena, root), 0);
        shm_map_attach(&f->trie);
        put_numbers(f, 100);
        sweep_all(f, sweep);
        sweep_all(f, (ShmMapSweep){ .miscounted_only = true });
        assert_int_equal(n_counted(f), 100);
}

static void open_named(Fixture *f, const char *name, ShmTrie *ret) {
        uint64_t root;

        assert_int_equal(shm_trie_create(&f->actor, f->trie.epoch, &root), 0);
        assert_int_equal(shm_root_set(&f->arena, name, 0, root), 0);
        assert_int_equal(shm_object_publish(&f->actor, root), 0);
        assert_int_equal(shm_trie_open(ret, &f->arena, root), 0);
        shm_map_attach(ret);
}

/* The name of a map is unset in the midst of its walk: that of the next map begins at its first entry. */
static void test_map_sweep_beside_unset(void **state) {
        Fixture *f = *state;
        ShmTrie first = f->trie, second;
        ShmMapSweep sweep = {};
        ShmMapTotals totals;
        bool swapped;

        shm_map_attach(&first);
        open_named(f, "map.second", &second);
        swapped = second.map < first.map;
        f->trie = first;
        put_numbers(f, 300);
        f->trie = second;
        put_numbers(f, 300);
        for (unsigned i = 0; i < 20; i++)
                assert_false(shm_map_sweep_step(&f->actor, &sweep, 7));
        assert_int_equal(sweep.root, swapped ? second.map - 1 : first.map - 1);
        assert_int_equal(shm_root_set(&f->arena, swapped ? "map.second" : "map.test",
                                      swapped ? second.root : first.root, 0),
                         0);
        sweep_all(f, sweep);
        shm_map_totals(&f->arena, swapped ? first.map - 1 : second.map - 1, &totals);
        assert_int_equal(totals.bytes, 300 * ENTRY_COST(64));
}

/* A step passes over few words, though there is no entry in most of them. */
static void test_map_expire_step(void **state) {
        Fixture *f = *state;
        ShmTrieScan scan = {};
        unsigned n_steps = 0;
        uint64_t before;
        char name[16];

        for (unsigned i = 0; i < 3000; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(put(f, name, name), 0);
        }
        assert_int_equal(expire(f, shm_epoch_current(&f->arena), 1000), 3000);
        for (; !scan.done; n_steps++) {
                before = scan.n_words;
                assert_int_equal(shm_map_expire(&f->actor, &f->trie, 0xff, &scan, 1), 0);
                assert_in_range(scan.n_words - before, 1, 64);
        }
        assert_true(n_steps > 10);
}

/* Entries that stay are met once, though others come and go, and values change, at every step. */
static void test_map_next_beside_changes(void **state) {
        enum { N = 2000 };
        Fixture *f = *state;
        unsigned char seen[N] = {};
        char buffer[SHM_CLASS_SIZE_MAX], name[16];
        ShmTrieScan scan = {};
        ShmMapView view;
        unsigned step = 0;
        int r;

        for (unsigned i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "s%u", i);
                assert_int_equal(put(f, name, "old"), 0);
        }
        for (; (r = shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view)) == 1; step++) {
                ShmMapKey gone;

                if (buffer[0] == 's') {
                        buffer[view.head.key_size] = 0;
                        seen[atoi(buffer + 1)]++;
                }
                snprintf(name, sizeof(name), "s%u", step * 7 % N);
                assert_int_equal(put(f, name, "new"), 0);
                snprintf(name, sizeof(name), "x%u", step);
                assert_int_equal(put(f, name, "comes"), 0);
                snprintf(name, sizeof(name), "x%u", step / 2);
                gone = key_of(f, name);
                (void) shm_map_delete(&f->actor, &f->trie, &gone, 0);
        }
        assert_int_equal(r, 0);
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(seen[i], 1);
}

static void test_map_index_revoked(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "k");
        ShmTrieScan scan = {};
        char buffer[SHM_CLASS_SIZE_MAX];
        ShmMapView view;

        assert_int_equal(put(f, "k", "1"), 0);
        assert_int_equal(shm_object_free(&f->actor, f->root), 0);
        assert_int_equal(shm_map_get(&f->trie, &k, buffer, sizeof(buffer), NULL), -EIDRM);
        assert_int_equal(put(f, "k", "2"), -EIDRM);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), -EIDRM);
        assert_int_equal(shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view), -EIDRM);
        assert_int_equal(shm_map_count(&f->trie), -EIDRM);
        assert_int_equal(shm_map_expire(&f->actor, &f->trie, 0, &scan, 10), -EIDRM);
}

/* The maps' epoch is closed: changes that need no new node go on. */
static void test_map_index_closed(void **state) {
        Fixture *f = *state;

        assert_int_equal(put(f, "k", "1"), 0);
        assert_int_equal(shm_epoch_close(&f->arena, f->trie.epoch, true), 0);
        assert_int_equal(put(f, "k", "2"), 0);
        assert_int_equal(put(f, "j", "1"), -ESHUTDOWN);
        assert_value(f, key_of(f, "k"), "2");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_map_put_get_delete, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_sizes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_modes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_errors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_without_memory, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_into_last_slab, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_into_last_slab_uncached, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_into_last_slab_again, setup_few_classes,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_map_put_pieces_into_last_slab, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_pieces_into_last_slab_uncached, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_beyond_last_slab, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_put_into_whole_slabs, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_equal_hashes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_equal_hashes_come_and_go, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_stale_is_absent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_equal_hashes_stale, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_expire, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_expire_step, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_bytes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_totals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_totals_after_revocation, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_totals_sweep_beside_puts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_totals_sweep_beside_stopped, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_count_again_quiet, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_count_again_stopped, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_count_again_large, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_count_again_gone, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_totals_sweep_beside_new_map, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_sweeps_beside_deaths, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_sweep_beside_unset, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_next_beside_changes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_size, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_index_revoked, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map_index_closed, setup, teardown),
        };

        return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
