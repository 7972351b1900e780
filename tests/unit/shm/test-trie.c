/*
 * The trie alone: leaves of 64 bytes, hashes of the test's choosing, crashes imitated by the state that they
 * leave.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/cache/cache.h"
#include "shm/map/trie/trie.h"
#include "tests/util/trie.h"

#define FIXED_SIZE (65 * 512) /* the levels that stay */

typedef struct Leaf {
        uint64_t hash;
        uint64_t value;
} Leaf;

typedef struct Fixture {
        ShmArena arena;
        ShmActor actor;
        ShmTrie trie;
        uint64_t root;
} Fixture;

static uint64_t mix(uint64_t x) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static void fixture_init(Fixture *f, uint32_t n_classes, const uint32_t *classes) {
        ShmGeometry g = { .slabs_size = UINT64_C(256) << 20, .n_records = 8, .n_epochs = 4 };

        g.n_classes = n_classes;
        memcpy(g.class_size, classes, n_classes * sizeof(*classes));
        assert_int_equal(shm_arena_create(&f->arena, &g, NULL), 0);
        assert_int_equal(shm_actor_init(&f->actor, &f->arena, 0, 1), 0);
        assert_int_equal(shm_trie_create(&f->actor, shm_epoch_current(&f->arena), &f->root), 0);
        f->arena.header->roots[0].handle = f->root;
        assert_int_equal(shm_object_publish(&f->actor, f->root), 0);
        assert_int_equal(shm_trie_open(&f->trie, &f->arena, f->root), 0);
}

static void setup_classes(Fixture *f) {
        fixture_init(f, SHM_N_CLASSES_DEFAULT, (uint32_t[]) SHM_CLASSES_DEFAULT);
}

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        setup_classes(f);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        shm_cache_leave(&f->actor);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}

static unsigned n_notes(const Fixture *f) {
        unsigned n = 0;

        for (unsigned i = 0; i < SHM_NOTES_MAX; i++)
                n += f->actor.record->notes[i].handle != 0;
        return n;
}

static Leaf *leaf_at(Fixture *f, uint64_t handle) {
        void *object;

        return shm_object_get(&f->arena, handle, &object, NULL) == 0 ? object : NULL;
}

static uint64_t leaf_new(Fixture *f, uint64_t hash, uint64_t value) {
        ShmPending pending = { .root = f->root, .hash = hash };
        uint64_t handle;
        void *object;

        assert_int_equal(shm_object_alloc(&f->actor, 64, 0, &pending, &handle, &object), 0);
        *(Leaf *) object = (Leaf){ hash, value };
        return handle;
}

/* The value is the key: at most one leaf has it. True: found; else at the end of the path. */
static bool find(Fixture *f, uint64_t hash, uint64_t value, ShmTrieCursor *c) {
        int r;

        for (r = shm_trie_seek(&f->trie, hash, c); r == 0; r = shm_trie_next(&f->trie, c)) {
                Leaf *l = shm_trie_is_leaf(c->value) ? leaf_at(f, c->value) : NULL;

                if (l && l->hash == hash && l->value == value)
                        return true;
        }
        assert_int_equal(r, SHM_TRIE_E_LAST);
        return false;
}

static uint64_t put(Fixture *f, uint64_t hash, uint64_t value) {
        uint64_t leaf = leaf_new(f, hash, value);
        ShmTrieCursor c;

        while (!find(f, hash, value, &c) && c.value != 0 &&
               (shm_trie_in_bucket(&f->trie, &c) || leaf_at(f, c.value))) {
                int r = shm_trie_split(&f->actor, &f->trie, &c, leaf);

                if (r == 0)
                        return leaf;
                assert_int_equal(r, SHM_TRIE_E_CHANGED);
        }
        assert_int_equal(n_notes(f), 1);
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, leaf), 0);
        assert_int_equal(n_notes(f), 0);
        assert_true(c.value == leaf);
        return leaf;
}

static void delete (Fixture *f, uint64_t hash, uint64_t value) {
        uint64_t leaf, vacancy;
        ShmTrieCursor c;

        assert_true(find(f, hash, value, &c));
        leaf = c.value;
        assert_true(shm_trie_contains(&f->arena, f->root, hash, leaf));
        vacancy = shm_trie_in_bucket(&f->trie, &c) ? SHM_TRIE_GONE : 0;
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, vacancy), 0);
        assert_int_equal(n_notes(f), 0);
        assert_false(shm_object_live(&f->arena, leaf));
        assert_false(shm_trie_contains(&f->arena, f->root, hash, leaf));
}

static uint64_t scan_count(Fixture *f, uint64_t *ret_stale) {
        uint64_t n = 0, stale = 0, last = 0, hash;
        ShmTrieScan scan = {};
        ShmTrieCursor c;
        int r;

        while ((r = shm_trie_scan(&f->trie, &scan, &c, &hash)) == 1) {
                if (shm_object_live(&f->arena, c.value))
                        n++;
                else
                        stale++;
                assert_true(hash >= last);
                last = hash;
        }
        assert_int_equal(r, 0);
        if (ret_stale)
                *ret_stale = stale;
        return n;
}

static void test_trie_many(void **state) {
        enum { N = 200000 };
        Fixture *f = *state;
        ShmTrieCursor c;

        for (uint64_t i = 0; i < N; i++)
                put(f, mix(i), i);
        assert_int_equal(scan_count(f, NULL), N);
        for (uint64_t i = 0; i < N; i++)
                assert_true(find(f, mix(i), i, &c));
        for (uint64_t i = N; i < N + 1000; i++)
                assert_false(find(f, mix(i), i, &c));
        for (uint64_t i = 0; i < N; i += 2)
                put(f, mix(i), i);
        for (uint64_t i = 0; i < N; i += 3)
                delete (f, mix(i), i);
        for (uint64_t i = 0; i < N; i++)
                assert_int_equal(find(f, mix(i), i, &c), i % 3 != 0);
        assert_int_equal(scan_count(f, NULL), N - (N + 2) / 3);
}

/* Words as values: what is frozen is told from what is not, and from what it was. */
static void test_trie_words(void **state) {
        const uint64_t leaf = UINT64_C(0x1234567855) << 32 | UINT64_C(1) << 30 | 77,
                       inner = leaf ^ SHM_TRIE_FLIP;
        const uint64_t values[] = { 0, leaf, inner };

        (void) state;
        for (unsigned i = 0; i < 3; i++) {
                uint64_t frozen = shm_trie_freeze(values[i]);

                assert_false(shm_trie_is_frozen(values[i]));
                assert_true(shm_trie_is_frozen(frozen));
                assert_false(shm_trie_is_leaf(frozen) || shm_trie_is_inner(frozen));
                assert_true(shm_trie_thaw(frozen) == values[i]);
        }
        assert_false(shm_trie_can_link(SHM_HANDLE_VERSION << 30));
        assert_true(shm_trie_can_link(leaf));
        for (uint64_t n = 1; n < 1000; n++) {
                uint64_t change = shm_trie_seal(leaf) ^ shm_trie_seal(leaf + (n << 33));

                assert_int_equal(change & SHM_TRIE_KIND, 0);
                assert_true(change >> 32 != 0 && (uint32_t) change != 0);
        }
}

/* The one leaf that could not be told from an empty word, if it were frozen, is refused. */
static void test_trie_exchange_refuses(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c;

        assert_false(find(f, 9, 1, &c));
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, SHM_HANDLE_VERSION << 30),
                         SHM_TRIE_E_STALE);
        assert_true(*c.word == c.raw);
        assert_int_equal(n_notes(f), 0);
}

/* An index of entries that come and go: nodes with less than two leaves below them do not stay. */
static void test_trie_shrinks(void **state) {
        enum { LIVE = 1000, N = 1000000 };
        Fixture *f = *state;
        TrieCount count;

        for (uint64_t i = 0; i < N; i++) {
                put(f, mix(i), i);
                if (i >= LIVE)
                        delete (f, mix(i - LIVE), i - LIVE);
        }
        count = trie_count(&f->trie);
        assert_int_equal(count.n_leaves, LIVE);
        assert_int_equal(count.n_sparse + count.n_frozen + count.n_stale, 0);
        assert_in_range(count.size, 0, 48 * LIVE + FIXED_SIZE);
        for (uint64_t i = N - LIVE; i < N; i++)
                delete (f, mix(i), i);
        assert_in_range(trie_count(&f->trie).size, 0, FIXED_SIZE);
}

/* After a burst, and at each number of entries on the way: the bound is for the worst of them. */
static void test_trie_size(void **state) {
        enum { N = 200000 };
        Fixture *f = *state;

        for (uint64_t i = 0; i < N; i++)
                put(f, mix(i), i);
        for (uint64_t left = N; left > 0;) {
                assert_in_range(trie_count(&f->trie).size, 0, 48 * left + FIXED_SIZE);
                for (uint64_t end = left * 7 / 8; left > end; left--)
                        delete (f, mix(left - 1), left - 1);
        }
}

static void test_trie_shares_all_but_last_bit(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c;
        uint64_t a, b;

        a = put(f, 0, 1);
        b = put(f, 1, 2);
        assert_true(find(f, 0, 1, &c) && c.value == a && c.depth == f->trie.n_levels);
        assert_true(find(f, 1, 2, &c) && c.value == b && c.depth == f->trie.n_levels);
        put(f, UINT64_MAX, 3);
        put(f, UINT64_MAX - 1, 4);
        assert_int_equal(scan_count(f, NULL), 4);
        assert_true(shm_trie_contains(&f->arena, f->root, 0, a));
        assert_false(shm_trie_contains(&f->arena, f->root, 1, a));
        assert_true(shm_trie_contains(&f->arena, f->root, 1, b));
}

static void test_trie_equal_hashes(void **state) {
        enum { N = 100 };
        Fixture *f = *state;
        const uint64_t hash = mix(7);
        uint64_t leaves[N];
        ShmTrieCursor c;

        for (uint64_t i = 0; i < N; i++)
                leaves[i] = put(f, hash, i);
        assert_int_equal(scan_count(f, NULL), N);
        for (uint64_t i = 0; i < N; i++) {
                assert_true(find(f, hash, i, &c) && c.value == leaves[i]);
                assert_true(shm_trie_contains(&f->arena, f->root, hash, leaves[i]));
        }
        for (uint64_t i = 0; i < N; i += 2)
                delete (f, hash, i);
        for (uint64_t i = 1; i < N; i += 2)
                leaves[i] = put(f, hash, i);
        assert_int_equal(scan_count(f, NULL), N / 2);
        for (uint64_t i = 0; i < N; i++)
                put(f, hash, i);
        assert_int_equal(scan_count(f, NULL), N);
        for (uint64_t i = 0; i < N; i++)
                delete (f, hash, i);
        assert_int_equal(scan_count(f, NULL), 0);
}

/* A chain of buckets has an end: an error, and nothing is left noted. */
static void test_trie_split_too_many_equal(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c;
        uint64_t n = 0, leaf;
        int r = 0;

        for (;; n++) {
                leaf = leaf_new(f, 5, n);
                while (!find(f, 5, n, &c) && c.value != 0 && r >= 0)
                        r = shm_trie_split(&f->actor, &f->trie, &c, leaf);
                if (r < 0)
                        break;
                assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, leaf), 0);
        }
        assert_int_equal(r, -ENOSPC);
        assert_in_range(n, 900, 2000);
        assert_int_equal(n_notes(f), 1);
        shm_cache_free_pending(&f->actor);
        assert_int_equal(scan_count(f, NULL), n);
        for (uint64_t i = 0; i < n; i++)
                delete (f, 5, i);
}

static void test_trie_exchange_changed(void **state) {
        Fixture *f = *state;
        uint64_t old = put(f, 9, 1), theirs, mine;
        ShmTrieCursor c;

        assert_true(find(f, 9, 1, &c));
        theirs = put(f, 9, 1);
        mine = leaf_new(f, 9, 1);
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, mine), SHM_TRIE_E_CHANGED);
        assert_true(c.value == theirs);
        assert_false(shm_object_live(&f->arena, old));
        assert_true(shm_object_live(&f->arena, mine));
        assert_int_equal(n_notes(f), 1);
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, mine), 0);
        assert_false(shm_object_live(&f->arena, theirs));
}

/* Its epoch was revoked before it was linked: it is still the caller's, and the old value stays. */
static void test_trie_exchange_stale(void **state) {
        Fixture *f = *state;
        uint64_t old, mine = leaf_new(f, 9, 1);
        ShmTrieCursor c;

        assert_int_equal(shm_object_free(&f->actor, mine), 0);
        assert_false(find(f, 9, 1, &c));
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, mine), SHM_TRIE_E_STALE);
        assert_true(*c.word == c.raw && c.value == 0);
        assert_int_equal(n_notes(f), 1);
        assert_int_equal(f->actor.record->guard, 0);
        shm_cache_free_pending(&f->actor);

        old = put(f, 9, 1);
        mine = leaf_new(f, 9, 1);
        assert_int_equal(shm_object_free(&f->actor, mine), 0);
        assert_true(find(f, 9, 1, &c));
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, mine), SHM_TRIE_E_STALE);
        assert_true(*c.word == (old ^ shm_trie_seal(c.node)) && shm_object_live(&f->arena, old));
        assert_int_equal(n_notes(f), 1);
}

/* The node of the cursor is revoked: its memory may be another's, and is not written into. */
static void test_trie_change_of_stale_node(void **state) {
        Fixture *f = *state;
        uint64_t mine, theirs, before, before_leaf;
        ShmTrieCursor c, at_leaf;

        (void) put(f, 9, 1);
        (void) put(f, UINT64_MAX, 2);
        mine = leaf_new(f, UINT64_C(1) << 62, 3);
        assert_int_equal(shm_trie_seek(&f->trie, UINT64_C(1) << 62, &c), 0);
        assert_int_equal(shm_trie_seek(&f->trie, 9, &at_leaf), 0);
        assert_true(c.node == at_leaf.node && c.value == 0 && at_leaf.value != 0);
        theirs = at_leaf.value;
        before = *c.word;
        before_leaf = *at_leaf.word;
        assert_int_equal(shm_object_free(&f->actor, c.node), 0);
        assert_int_equal(shm_trie_exchange(&f->actor, &f->trie, &c, mine), -EIDRM);
        assert_true(*c.word == before && *at_leaf.word == before_leaf);
        assert_int_equal(shm_trie_split(&f->actor, &f->trie, &at_leaf, mine), SHM_TRIE_E_CHANGED);
        assert_int_equal(shm_trie_reload(&f->trie, &c), -EIDRM);
        assert_int_equal(shm_trie_seek(&f->trie, 9, &c), -EIDRM);
        assert_false(shm_trie_contains(&f->arena, f->root, 9, theirs));
        assert_int_equal(n_notes(f), 1);
        assert_int_equal(f->actor.record->guard, 0);
}

static void test_trie_split_changed(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c, d;
        uint64_t mine;

        put(f, 9, 1);
        mine = leaf_new(f, 8, 2);
        assert_false(find(f, 8, 2, &c));
        d = c;
        assert_int_equal(shm_trie_split(&f->actor, &f->trie, &d, mine), SHM_TRIE_E_CHANGED);
        assert_false(find(f, 8, 2, &d));
        assert_true(d.depth == c.depth + 1 && d.value == c.value);
        assert_int_equal(shm_trie_split(&f->actor, &f->trie, &c, mine), SHM_TRIE_E_CHANGED);
        assert_false(find(f, 8, 2, &c));
        assert_true(c.word == d.word && c.depth == d.depth && c.value == d.value);
        assert_int_equal(n_notes(f), 1);
        assert_int_equal(shm_object_free(&f->actor, mine), 0);
        assert_int_equal(shm_trie_split(&f->actor, &f->trie, &c, mine), SHM_TRIE_E_STALE);
        shm_cache_free_pending(&f->actor);
}

static void test_trie_stale_leaf_is_replaced(void **state) {
        Fixture *f = *state;
        uint64_t old = put(f, 9, 1), stale;
        ShmTrieCursor c;

        assert_int_equal(shm_object_free(&f->actor, old), 0);
        assert_false(find(f, 9, 1, &c));
        assert_int_equal(scan_count(f, &stale), 0);
        assert_int_equal(stale, 1);
        put(f, 10, 2); /* its path ends at the stale word */
        assert_int_equal(scan_count(f, &stale), 1);
        assert_int_equal(stale, 0);
        assert_int_equal(f->arena.header->roots[0].handle, f->root);
}

/* The questions that repair asks after a death at each step of a replacing put. */
static void test_trie_contains_after_each_step(void **state) {
        Fixture *f = *state;
        uint64_t old = put(f, 9, 1), new = leaf_new(f, 9, 1), inner;
        ShmTrieCursor c;

        assert_false(shm_trie_contains(&f->arena, f->root, 9, new));
        assert_true(shm_trie_contains(&f->arena, f->root, 9, old));
        assert_true(find(f, 9, 1, &c));
        *c.word = new ^ shm_trie_seal(c.node);
        assert_true(shm_trie_contains(&f->arena, f->root, 9, new));
        assert_false(shm_trie_contains(&f->arena, f->root, 9, old));

        assert_true(find(f, 9, 1, &c));
        assert_int_equal(shm_trie_split(&f->actor, &f->trie, &c, leaf_new(f, 9, 2)), SHM_TRIE_E_CHANGED);
        inner = ((ShmTrieRoot *) leaf_at(f, f->root))->word ^ shm_trie_seal(f->root) ^ SHM_TRIE_FLIP;
        assert_true(shm_object_live(&f->arena, inner));
        assert_true(shm_trie_contains(&f->arena, f->root, 9, inner));
        assert_true(shm_trie_contains(&f->arena, f->root, 9, new));
        assert_false(shm_trie_contains(&f->arena, f->root, UINT64_MAX, new));
        assert_true(shm_trie_contains(&f->arena, SHM_NOTE_NAMED_ROOT, 0, f->root));
        assert_false(shm_trie_contains(&f->arena, SHM_NOTE_NAMED_ROOT, 0, inner));
        assert_false(shm_trie_contains(&f->arena, inner, 9, new));
        assert_false(shm_trie_contains(&f->arena, UINT64_C(0xdeadbeef), 9, new));
}

/* With any bits in the words, walks and scans end and stay inside the arena. */
static void test_trie_scribbled(void **state) {
        Fixture *f = *state;
        ShmTrieCursor c;
        ShmTrieScan scan;
        uint64_t hash, handles[64], seed = 1;

        for (unsigned i = 0; i < 64; i++)
                handles[i] = put(f, mix(i), i);
        for (unsigned round = 0; round < 20000; round++) {
                uint64_t h = mix(seed++);

                if (shm_trie_seek(&f->trie, mix(h % 64), &c) == 0)
                        *c.word = (h & 1 ? handles[h >> 8 & 63] ^ (h & 2 ? SHM_TRIE_FLIP : 0) : mix(h)) ^
                                  shm_trie_seal(c.node);
                (void) shm_trie_contains(&f->arena, f->root, mix(h % 64), handles[h >> 20 & 63]);
                if (round % 100 != 0)
                        continue;
                scan = (ShmTrieScan){};
                while (shm_trie_scan(&f->trie, &scan, &c, &hash) == 1)
                        ;
        }
}

/* A node that leads to itself: of one class, so that it is found at one address at every level. */
static void test_trie_circle(void **state) {
        Fixture f = {};
        uint64_t leaf, hash;
        ShmTrieScan scan = {};
        ShmTrieCursor c;
        int r;

        (void) state;
        fixture_init(&f, 1, (uint32_t[]){ 64 });
        leaf = put(&f, 0, 1);
        assert_int_equal(shm_trie_seek(&f.trie, 0, &c), 0);
        assert_int_equal(shm_trie_split(&f.actor, &f.trie, &c, leaf_new(&f, 0, 2)), SHM_TRIE_E_CHANGED);
        assert_int_equal(shm_trie_seek(&f.trie, 0, &c), 0);
        *c.word = ((ShmTrieRoot *) leaf_at(&f, f.root))->word ^ shm_trie_seal(f.root) ^ shm_trie_seal(c.node);
        assert_int_equal(shm_trie_seek(&f.trie, 0, &c), -EIDRM);
        assert_false(shm_trie_contains(&f.arena, f.root, 0, leaf));
        while ((r = shm_trie_scan(&f.trie, &scan, &c, &hash)) == 1)
                ;
        assert_int_equal(r, -EIDRM);
        shm_cache_leave(&f.actor);
        shm_arena_deinit(&f.arena);
}

/* A node all of whose words lead to the next, or hold the same leaf. */
static uint64_t node_of(Fixture *f, uint64_t value, uint32_t n_words) {
        uint64_t handle, *words;
        void *object;

        assert_int_equal(shm_object_alloc(&f->actor, n_words * 8, f->trie.epoch, NULL, &handle, &object), 0);
        words = object;
        for (uint32_t i = 0; i < n_words; i++)
                words[i] = value ^ shm_trie_seal(handle);
        return handle ^ SHM_TRIE_FLIP;
}

/* Some 20 nodes that share what is below them have more words than anybody could look at. */
static void test_trie_scan_ends(void **state) {
        Fixture *f = *state;
        uint64_t leaves[3] = { 0, leaf_new(f, 5, 1), leaf_new(f, 6, 1) };

        assert_int_equal(shm_object_free(&f->actor, leaves[2]), 0); /* stale */
        for (unsigned i = 0; i < 3; i++) {
                ShmTrieRoot *root = (ShmTrieRoot *) leaf_at(f, f->root);
                uint64_t value = leaves[i], hash, n = 0;
                ShmTrieScan scan = {};
                ShmTrieCursor c;
                int r;

                for (uint32_t level = f->trie.n_levels; level-- > 0;)
                        value = node_of(f, value, f->trie.levels[level].n_words);
                root->word = value ^ shm_trie_seal(f->root);
                while ((r = shm_trie_scan(&f->trie, &scan, &c, &hash)) == 1)
                        n++;
                assert_int_equal(r, -EIDRM);
                assert_in_range(n, 0, 10000000);
        }
        shm_cache_free_pending(&f->actor);
}

/* Every list of classes has a shape that works. */
static void test_trie_shapes(void **state) {
        static const struct {
                uint32_t n, sizes[4], top, low;
        } cases[] = {
                { 1, { 64 }, 3, 3 },           { 1, { 4096 }, 6, 4 }, { 2, { 64, 1024 }, 6, 3 },
                { 3, { 80, 144, 528 }, 6, 3 }, { 1, { 240 }, 4, 4 },
        };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                Fixture f = {};
                ShmTrieRoot *root;
                ShmTrieCursor c;

                fixture_init(&f, cases[i].n, cases[i].sizes);
                root = (ShmTrieRoot *) leaf_at(&f, f.root);
                assert_int_equal(root->top_bits, cases[i].top);
                assert_int_equal(root->low_bits, cases[i].low);
                for (uint64_t k = 0; k < 2000; k++)
                        put(&f, mix(k), k);
                for (uint64_t k = 0; k < 40; k++) {
                        put(&f, k, k + 5000);
                        put(&f, UINT64_MAX, k + 6000);
                }
                for (uint64_t k = 0; k < 2000; k++)
                        assert_true(find(&f, mix(k), k, &c));
                assert_int_equal(scan_count(&f, NULL), 2080);
                shm_cache_leave(&f.actor);
                shm_arena_deinit(&f.arena);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_trie_many, setup, teardown),
                cmocka_unit_test(test_trie_words),
                cmocka_unit_test_setup_teardown(test_trie_exchange_refuses, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_shrinks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_size, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_shares_all_but_last_bit, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_equal_hashes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_split_too_many_equal, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_split_changed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_exchange_changed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_exchange_stale, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_change_of_stale_node, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_stale_leaf_is_replaced, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_contains_after_each_step, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_scribbled, setup, teardown),
                cmocka_unit_test_setup_teardown(test_trie_scan_ends, setup, teardown),
                cmocka_unit_test(test_trie_circle),
                cmocka_unit_test(test_trie_shapes),
        };

        return cmocka_run_group_tests_name("trie", tests, NULL, NULL);
}
