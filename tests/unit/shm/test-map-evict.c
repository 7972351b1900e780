/* Maps with a limit, and maps that evict, in one thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/arena/map-set.h"
#include "shm/arena/root.h"
#include "shm/cache/cache.h"
#include "shm/epoch/epoch-open.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/claim.h"
#include "shm/map/evict/evict-hand.h"
#include "shm/map/evict/evict.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/stats/stats.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/api/entry-cost.h"
#include "tests/util/map-options.h"
#include "tests/util/sieve.h"

#define VALUE_MAX (1 << 20)

typedef struct Fixture {
        ShmArena arena;
        ShmActor actor;
        uint32_t maps; /* the epoch of indexes */
        ShmTrie trie;
} Fixture;

static uint8_t buffer[VALUE_MAX];

static void open_map(Fixture *f, const char *name, ShmTrie *ret) {
        unsigned n_evicted = 0;
        uint64_t root;
        int r;

        do
                r = shm_trie_create(&f->actor, f->maps, &root);
        while (r == -ENOMEM && shm_evict_for_object(&f->actor, sizeof(ShmTrieRoot), n_evicted++));
        assert_int_equal(r, 0);
        assert_int_equal(shm_root_set(&f->arena, name, 0, root), 0);
        assert_int_equal(shm_object_publish(&f->actor, root), 0);
        assert_int_equal(shm_trie_open(ret, &f->arena, root), 0);
        shm_map_attach(ret);
}

static int setup_size(void **state, uint64_t slabs_size) {
        Fixture *f = calloc(1, sizeof(*f));

        map_arena_create(&f->arena, slabs_size);
        assert_int_equal(shm_actor_init(&f->actor, &f->arena, 0, 1), 0);
        assert_int_equal(test_reserve_epoch(&f->arena, &f->maps), 0);
        open_map(f, "map.test", &f->trie);
        *state = f;
        return 0;
}

static int setup(void **state) {
        return setup_size(state, UINT64_C(64) << 20);
}

static int setup_middle(void **state) {
        return setup_size(state, UINT64_C(4) << 20);
}

static int setup_small(void **state) {
        return setup_size(state, UINT64_C(1) << 20);
}

static int setup_eight_mib(void **state) {
        return setup_size(state, UINT64_C(8) << 20);
}

/* Its memory is never touched but for the last slabs. */
static int setup_two_gib(void **state) {
        return setup_size(state, UINT64_C(2) << 30);
}

/* Its memory is never touched but for the first slabs. */
static int setup_largest(void **state) {
        return setup_size(state, (uint64_t) SHM_SLABS_MAX * SHM_SLAB_SIZE);
}

static int teardown(void **state) {
        Fixture *f = *state;

        map_actor_leave(&f->actor);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}

static ShmMapKey key_of(Fixture *f, const uint32_t *key) {
        return (ShmMapKey){ key, sizeof(*key), shm_hash(&f->arena, key, sizeof(*key)) };
}

static int put_in(Fixture *f, const ShmTrie *trie, uint32_t key, uint32_t size, ShmMapMode mode,
                  uint64_t expected) {
        ShmMapPut p = {
                .mode = mode,
                .expected = expected,
                .value = buffer,
                .value_size = size,
                .epoch = SHM_EPOCH_CURRENT,
        };
        ShmMapKey k = key_of(f, &key);

        return shm_map_put(&f->actor, trie, &k, &p, NULL);
}

static int put(Fixture *f, uint32_t key, uint32_t size) {
        return put_in(f, &f->trie, key, size, SHM_MAP_PUT, 0);
}

static ssize_t get_in(Fixture *f, const ShmTrie *trie, uint32_t key) {
        static uint8_t value[VALUE_MAX];
        ShmMapKey k = key_of(f, &key);

        return shm_map_get(trie, &k, value, sizeof(value), NULL);
}

static ssize_t get(Fixture *f, uint32_t key) {
        return get_in(f, &f->trie, key);
}

static ShmMapTotals totals_of(Fixture *f, const ShmTrie *trie) {
        ShmMapTotals t;

        shm_map_totals(&f->arena, trie->map - 1, &t);
        return t;
}

static ShmMapTotals totals(Fixture *f) {
        return totals_of(f, &f->trie);
}

/* Values of 88 bytes: 32 + 4 + 88 fit 128. */
#define SIZE 88
#define SLOT 128
#define COST ENTRY_COST(SLOT)

static void test_limit_never(void **state) {
        enum { FULL = 9 * COST + 2 * ENTRY_COST(64) }; /* room for one more if one of 10 is small */
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, limit_bytes, FULL);
        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(put(f, 10, SIZE), -ENOSPC);
        assert_int_equal(get(f, 10), -ENOENT);
        /* A value makes room for the one that replaces it. */
        assert_int_equal(put(f, 3, SIZE), 0);
        assert_int_equal(put(f, 3, SIZE + 100), -ENOSPC);
        assert_int_equal(get(f, 3), SIZE);
        assert_int_equal(put(f, 3, 0), 0);
        assert_int_equal(put(f, 10, 28), 0);
        assert_int_equal(put(f, 11, 0), -ENOSPC);
        assert_int_equal(totals(f).bytes, FULL);
        /* Lowered below the size that is used: nothing goes, and nothing comes but what takes no more than before. */
        TRIE_SET_OPTION(&f->trie, limit_bytes, 5 * COST);
        assert_int_equal(put(f, 4, SIZE + 100), -ENOSPC);
        assert_int_equal(put(f, 4, SIZE), 0);
        assert_int_equal(put(f, 4, SIZE - 40), 0);
        assert_int_equal(put(f, 11, 0), -ENOSPC);
        assert_int_equal(get(f, 4), SIZE - 40);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 0);
        assert_int_equal(put(f, 11, SIZE), 0);
        assert_int_equal(totals(f).evictions, 0);
}

/* An entry that is larger than the whole limit is refused, with eviction or without, and nothing goes for it. */
static void test_limit_below_an_entry(void **state) {
        Fixture *f = *state;

        for (uint32_t evict = 0; evict < 2; evict++) {
                TRIE_SET_OPTION(&f->trie, limit_bytes, COST - 1);
                TRIE_SET_OPTION(&f->trie, evict, evict);
                assert_int_equal(put(f, 1, SIZE), -E2BIG);
                assert_int_equal(put(f, 2, 0), 0);
                assert_int_equal(put(f, 1, SIZE), -E2BIG);
                assert_int_equal(get(f, 2), 0);
                TRIE_SET_OPTION(&f->trie, limit_bytes, 1);
                assert_int_equal(put(f, 2, 0), -E2BIG);
                assert_int_equal(get(f, 2), 0);
                assert_int_equal(totals(f).evictions, 0);
        }
}

static void test_evict_keeps_the_limit(void **state) {
        enum { N = 1000 };
        Fixture *f = *state;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, limit_bytes, 100 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(get(f, i), SIZE);
                assert_true(totals(f).bytes <= 100 * COST);
        }
        for (uint32_t i = 0; i < N; i++)
                n += get(f, i) == SIZE;
        assert_int_equal(n, 100);
        assert_int_equal(totals(f).entries, 100);
        assert_int_equal(totals(f).inserts, N);
        assert_int_equal(totals(f).evictions, N - 100);
        assert_int_equal(shm_map_count(&f->trie), 100);
}

/* Entries that are used stay, however many pass that nobody uses. */
static void test_evict_spares_what_is_used(void **state) {
        enum { USED = 50 };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, limit_bytes, 100 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < USED; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        for (uint32_t i = 0; i < 5000; i++) {
                assert_int_equal(get(f, i % USED), SIZE);
                assert_int_equal(put(f, 1000 + i, SIZE), 0);
        }
        assert_int_equal(totals(f).entries, 100);
}

/* Large entries that nobody uses go before small ones. */
static void test_evict_spares_small(void **state) {
        enum { N = 20, LARGE = 980, LARGE_COST = ENTRY_COST(1024), SMALL_COST = ENTRY_COST(64) };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, limit_bytes, N * (LARGE_COST + SMALL_COST));
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put(f, i, LARGE), 0);
                assert_int_equal(put(f, 100 + i, 0), 0);
        }
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, 200 + i, LARGE), 0);
        assert_int_equal(totals(f).evictions, N);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(get(f, i), -ENOENT);
                assert_int_equal(get(f, 100 + i), 0);
        }
}

static uint32_t sweep_of(Fixture *f, uint32_t size) {
        return hand_unpack(hand_load(&f->trie, shm_arena_class(&f->arena, shm_leaf_size(4, size, 0)))).sweep;
}

/* The hand of a class that has the last slab, and nothing to evict, waits at the end for the others. */
static void test_evict_hands_go_together(void **state) {
        enum { N = 200, OTHER = 200 };
        Fixture *f = *state;
        uint32_t n_others = 0, last;

        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        do {
                assert_int_equal(put(f, N + n_others++, OTHER), 0);
                last = shm_arena_n_slabs_ever(&f->arena) - 1;
        } while (slab_word_state(shm_slab_word(&f->arena, last)) == SLAB_FREE && n_others < 10000);
        TRIE_SET_OPTION(&f->trie, limit_bytes, totals(f).bytes);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < n_others; i++)
                assert_int_equal(get(f, N + i), OTHER);
        for (uint32_t i = 0; i < N / 2; i++) {
                assert_int_equal(put(f, 20000 + i, SIZE), 0);
                assert_int_equal(sweep_of(f, SIZE), 0);
                assert_int_equal(sweep_of(f, OTHER), 0);
        }
}

/* Evictions for memory moved the hand of one class alone. The other class does not lose all of its entries for that. */
static void test_evict_hand_far_behind(void **state) {
        enum { N = 640, OTHER = 200, N_OTHER = N * SLOT / 256 };
        Fixture *f = *state;
        ShmMapHand *hands = f->arena.header->maps[f->trie.map - 1].hands;
        uint32_t n = 0;

        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                if (i < N_OTHER)
                        assert_int_equal(put(f, N + i, OTHER), 0);
        }
        TRIE_SET_OPTION(&f->trie, limit_bytes, totals(f).bytes);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        hands[shm_arena_class(&f->arena, shm_leaf_size(4, OTHER, 0))].place = UINT64_C(10) << SWEEP_SHIFT;
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, 20000 + i, SIZE), 0);
        for (uint32_t i = 0; i < N; i++)
                n += get(f, i) == SIZE;
        assert_in_range(n, N / 4, N * 3 / 4);
}

/* Entries are counted for all threads though as many bytes go as come. */
/* The bytes of free slots in the caches of all threads. */
static uint64_t cached_bytes(Fixture *f) {
        static ShmStats s;
        uint64_t sum = 0;

        shm_stats(&f->arena, &s);
        for (uint32_t i = 0; i < f->arena.n_classes; i++)
                sum += (s.class_taken[i] - s.classes[i].live_objects) * f->arena.classes[i].size;
        return sum;
}

/* In a pool of 64 MiB each cache has room for 64 KiB or more. */
static void test_evict_keeps_few_slots(void **state) {
        static const uint32_t sizes[] = { 200, 300, 600, 900, 1200, 1900, 3900 };
        const uint64_t limit = UINT64_C(4) << 20;
        uint64_t most = 0, n;
        Fixture *f = *state;

        f->actor.mode = SHM_CACHE_ADAPTIVE;
        TRIE_SET_OPTION(&f->trie, limit_bytes, limit);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 60000; i++) {
                /* Spells of large entries, and of small ones. */
                uint32_t k = (i * UINT32_C(2654435761)) >> 16;

                assert_int_equal(put(f, i, sizes[i / 512 % 2 ? k % 4 : 3 + k % 4]), 0);
                if (i < 20000 || i % 512 != 0)
                        continue;
                n = cached_bytes(f);
                most = n > most ? n : most;
        }
        assert_true(most < limit / 16);
}

static void test_evict_knows_the_mean(void **state) {
        Fixture *f = *state;

        for (uint32_t i = 0; i < SHM_TALLY_INSERTS; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(shm_map_entries(&f->trie), SHM_TALLY_INSERTS);
}

/* A value that grows makes others go, not itself. */
static void test_evict_spares_what_it_replaces(void **state) {
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, limit_bytes, ENTRY_COST(192));
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        assert_int_equal(put(f, 1, 0), 0);
        assert_int_equal(put(f, 2, 0), 0);
        assert_int_equal(put_in(f, &f->trie, 1, 150, SHM_MAP_UPDATE, 0), 0);
        assert_int_equal(get(f, 2), -ENOENT);
        assert_int_equal(totals(f).bytes, ENTRY_COST(192));
        assert_int_equal(totals(f).evictions, 1);
}

/* Every way to use an entry: */
static void test_evict_visits(void **state) {
        const ShmMapAdd add = { .delta = 1, .epoch = SHM_EPOCH_CURRENT };
        Fixture *f = *state;
        const uint32_t keys[] = { 1, 2, 3, 4, 5, 6 };
        ShmTrieCursor c;
        uint64_t counter;
        ShmMapKey k[6];
        ShmMapView view;
        int64_t sum;

        for (unsigned i = 0; i < 6; i++)
                k[i] = key_of(f, &keys[i]);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 20 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 1; i < 4; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(put(f, 5, SIZE), 0);
        assert_int_equal(shm_map_add(&f->actor, &f->trie, &k[5], &add, &sum), 0);
        assert_int_equal(shm_map_find(&f->trie, &k[5], &c, &view), 0);
        counter = view.handle;
        for (uint32_t i = 0; i < 500; i++) {
                assert_int_equal(shm_map_get_stale(&f->trie, &k[4], buffer, SIZE, &view), SIZE);
                assert_int_equal(shm_map_add_at(&f->actor, &f->trie, counter, 1, &sum), 0);
                assert_int_equal(shm_map_touch(&f->actor, &f->trie, &k[0], SHM_MAP_TTL_NONE), 0);
                assert_int_equal(shm_map_look(&f->trie, &k[1], &view), 0);
                assert_int_equal(put_in(f, &f->trie, 3, SIZE, SHM_MAP_UPDATE, 0), 0);
                assert_int_equal(shm_map_add(&f->actor, &f->trie, &k[3], &add, &sum), 0);
                assert_int_equal(sum, i + 1);
                assert_int_equal(put(f, 1000 + i, SIZE), 0);
        }
}

/* A claim is no entry that a value could be got from: it ends by itself. */
static void test_evict_spares_claims(void **state) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 60000 };
        Fixture *f = *state;
        const uint32_t key = 1;
        ShmMapKey k = key_of(f, &key);
        ShmClaimed claimed = {};

        TRIE_SET_OPTION(&f->trie, limit_bytes, 10 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
        for (uint32_t i = 0; i < 1000; i++)
                assert_int_equal(put(f, 1000 + i, SIZE), 0);
        assert_int_equal(put_in(f, &f->trie, key, SIZE, SHM_MAP_REPLACE, claimed.version), 0);
        assert_int_equal(get(f, key), SIZE);
}

static uint64_t clock_ms = UINT64_C(1) << 40; /* later than any clock of the system */

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return clock_ms * SHM_NS_PER_MS;
}

/* A claim that was given up, or whose time is over, has only a stale value: it goes as an entry does. */
static void check_evict_ended_claims(Fixture *f, uint32_t n, uint64_t limit, bool give_up) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT,
                                    .limit_ms = give_up ? 60000 : 0,
                                    .buffer = buffer,
                                    .buffer_size = sizeof(buffer) };
        const ShmMapPut p = { .value = buffer, .value_size = SIZE, .ttl_ms = 1 };

        f->trie.now_ns = clock_ns;
        TRIE_SET_OPTION(&f->trie, limit_bytes, limit);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&f->trie, stale_ms, 1000000);
        for (uint32_t i = 0; i < n; i++) {
                ShmMapKey k = key_of(f, &i);
                ShmMapClaim gone = claim;
                ShmClaimed claimed = {};

                assert_int_equal(shm_map_put(&f->actor, &f->trie, &k, &p, NULL), 0);
                clock_ms++;
                assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
                gone.gone = claimed.version;
                if (give_up)
                        assert_int_equal(shm_map_give_up(&f->actor, &f->trie, &k, &gone, &claimed), 0);
        }
        for (uint32_t i = 0; i < 2 * n; i++) {
                assert_int_equal(put(f, n + i, SIZE), 0);
                assert_int_equal(get(f, n + i), SIZE);
                assert_true(limit == 0 || totals(f).bytes <= limit);
        }
}

static void test_evict_given_up_claims(void **state) {
        check_evict_ended_claims(*state, 100, 40 * COST, true);
}

static void test_evict_ended_claims(void **state) {
        check_evict_ended_claims(*state, 100, 40 * COST, false);
}

/* The same where the pool's memory is the limit. */
static void test_evict_given_up_claims_for_memory(void **state) {
        check_evict_ended_claims(*state, 6000, 0, true);
}

/* Nothing is there to be evicted: that is seen by five sweeps. */
static void test_evict_ends_soon(void **state) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 60000 };
        Fixture *f = *state;
        ShmMapHand *hands = f->arena.header->maps[f->trie.map - 1].hands;
        uint64_t before;

        TRIE_SET_OPTION(&f->trie, limit_bytes, 10 * ENTRY_COST(96));
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 10; i++) {
                ShmMapKey k = key_of(f, &i);
                ShmClaimed claimed;

                assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
        }
        before = hands[shm_arena_class(&f->arena, 32 + 8 + sizeof(ShmClaim))].place >> 32;
        assert_int_equal(put(f, 10, 0), 0);
        assert_true((hands[shm_arena_class(&f->arena, 32 + 8 + sizeof(ShmClaim))].place >> 32) - before <= 5);
}

/* A map of another kind, and objects of a program, in the same slabs. */
static void test_evict_leaves_others(void **state) {
        enum { N = 200 };
        uint64_t users[N];
        Fixture *f = *state;
        ShmTrie other;

        open_map(f, "map.other", &other);
        TRIE_SET_OPTION(&f->trie, limit_bytes, N * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(put_in(f, &other, i, SIZE, SHM_MAP_PUT, 0), 0);
                assert_int_equal(shm_object_alloc(&f->actor, SLOT, SHM_EPOCH_CURRENT, NULL, &users[i], NULL),
                                 0);
        }
        for (uint32_t i = N; i < 10 * N; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(totals(f).entries, N);
        assert_int_equal(totals(f).evictions, 9 * N);
        assert_int_equal(totals_of(f, &other).entries, N);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(get_in(f, &other, i), SIZE);
                assert_int_equal(shm_object_free(&f->actor, users[i]), 0);
        }
}

/* Each put makes up for some more than its own size. */
static void test_limit_lowered(void **state) {
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, limit_bytes, 1000 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 1000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 10 * COST);
        assert_int_equal(put(f, 0, SIZE), 0);
        assert_true(totals(f).entries > 900);
        for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(put(f, 1000 + i, SIZE), 0);
        assert_int_equal(totals(f).bytes, 10 * COST);
}

/* Entries stay, and may be replaced by what takes no more. No other put succeeds until enough of them were deleted. */
static void test_limit_lowered_never(void **state) {
        Fixture *f = *state;

        for (uint32_t i = 0; i < 20; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 10 * COST);
        assert_int_equal(put(f, 20, SIZE), -ENOSPC);
        assert_int_equal(put(f, 0, SIZE + 100), -ENOSPC);
        assert_int_equal(put(f, 0, SIZE), 0);
        for (uint32_t i = 0; i < 20; i++)
                assert_int_equal(get(f, i), SIZE);
        for (uint32_t i = 0; i < 11; i++) {
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(put(f, 20, SIZE), -ENOSPC);
                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        }
        assert_int_equal(put(f, 20, SIZE), 0);
        assert_int_equal(put(f, 20, SIZE), 0);
        assert_int_equal(put(f, 21, SIZE), -ENOSPC);
        assert_int_equal(totals(f).bytes, 10 * COST);
}

/* A map that was not to evict: its entries were not marked as young or old. */
static void test_evict_from_now_on(void **state) {
        Fixture *f = *state;

        for (uint32_t i = 0; i < 1000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 1000 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 1000; i < 2000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(totals(f).entries, 1000);
}

static void test_evict_large_values(void **state) {
        Fixture *f = *state;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, limit_bytes, 8 << 20);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 100; i++) {
                assert_int_equal(put(f, 2 * i, 500000), 0);
                assert_int_equal(put(f, 2 * i + 1, SIZE), 0);
                assert_true(totals(f).bytes <= 8 << 20);
        }
        for (uint32_t i = 0; i < 100; i++)
                n += get(f, 2 * i) == 500000;
        assert_int_equal(n, (8 << 20) / (123 * SLAB_COST));
        assert_int_equal(put(f, 1000, 1 << 20), 0);
}

/* No limit but the pool's memory. */
static void test_evict_for_memory(void **state) {
        enum { N = 100000 };
        Fixture *f = *state;
        uint64_t n = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(get(f, i), SIZE);
        }
        for (uint32_t i = 0; i < N; i++)
                n += get(f, i) == SIZE;
        assert_int_equal(totals(f).entries, n);
        assert_true(n * COST > (1 << 20) * 6 / 10);
        assert_int_equal(totals(f).failures, 0);
}

/* The rest of the pool is objects. */
static void fill_with_objects(Fixture *f) {
        static const uint32_t sizes[] = { 4096, 96, SLOT };
        uint64_t handle;

        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                while (shm_object_alloc(&f->actor, sizes[i], SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                        ;
}

/*
 * The pool is full of objects, and its few entries are far from the hand: a put finds them all the same. The map has
 * had entries everywhere.
 */
static void test_evict_far_from_the_hand(void **state) {
        enum { N = 32, FREE = 100 };
        Fixture *f = *state;
        uint64_t handle;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = FREE; i < f->arena.n_slabs; i++)
                assert_int_equal(shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL),
                                 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        for (uint32_t i = 0; i < f->arena.n_slabs; i++)
                shm_set_add(&f->arena, shm_set_of_map(&f->arena, f->trie.map), i);
        fill_with_objects(f);
        for (uint32_t i = N; i < 2 * N; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(get(f, i), SIZE);
        }
        assert_true(totals(f).evictions > 0);
}

/* Late maps have bits of a slab's line together. What one of them does hides no entry of the other from its hand. */
static void test_evict_with_a_shared_bit(void **state) {
        enum { N = 200, FIRST = SHM_SET_OWN_BITS + 1, SECOND = FIRST + SHM_SET_OWN_BITS };
        Fixture *f = *state;
        char name[SHM_ROOT_NAME_SIZE];
        ShmTrie maps[SECOND + 1];
        ShmMapTotals totals;

        for (uint32_t i = f->trie.map + 1; i <= SECOND; i++) {
                (void) snprintf(name, sizeof(name), "map.%u", i);
                open_map(f, name, &maps[i]);
                assert_int_equal(maps[i].map, i);
        }
        assert_int_equal(shm_set_line_bit(FIRST), shm_set_line_bit(SECOND));
        for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(put_in(f, &maps[FIRST], i, SIZE, SHM_MAP_PUT, 0), 0);
                assert_int_equal(put_in(f, &maps[SECOND], i, SIZE, SHM_MAP_PUT, 0), 0);
        }
        TRIE_SET_OPTION(&maps[FIRST], limit_bytes, 2 * COST);
        TRIE_SET_OPTION(&maps[FIRST], evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = N; i < 2 * N; i++)
                assert_int_equal(put_in(f, &maps[FIRST], i, SIZE, SHM_MAP_PUT, 0), 0);
        TRIE_SET_OPTION(&maps[SECOND], limit_bytes, N / 2 * COST);
        TRIE_SET_OPTION(&maps[SECOND], evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = N; i < 2 * N; i++)
                assert_int_equal(put_in(f, &maps[SECOND], i, SIZE, SHM_MAP_PUT, 0), 0);
        shm_map_totals(&f->arena, SECOND - 1, &totals);
        assert_in_range(totals.entries, 1, N / 2 + 1);
        shm_map_totals(&f->arena, FIRST - 1, &totals);
        assert_in_range(totals.entries, 1, 3);
}

/* A hand died after it took slabs out, and before it cleared the bits of their lines: the census adds all slabs. */
static void test_evict_after_a_census(void **state) {
        enum { N = 200 };
        Fixture *f = *state;
        ShmMapSweep sweep = { .miscounted_only = true };

        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        for (uint32_t i = 0; i < f->arena.n_slabs; i++) {
                uint64_t bits = f->arena.lines[i].maps;

                shm_set_forget(&f->arena, f->trie.map, i);
                f->arena.lines[i].maps = bits;
        }
        shm_map_ask_for_census(&f->arena, f->trie.map - 1);
        while (!shm_map_sweep_step(&f->actor, &sweep, 16))
                ;
        TRIE_SET_OPTION(&f->trie, limit_bytes, N / 2 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = N; i < 2 * N; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_in_range(totals(f).entries, 1, N / 2 + 1);
}

/* The same where many claims, which stand, are between the hand and the entries. */
static void test_evict_behind_claims(void **state) {
        enum { N_CLAIMS = 50000, N = 42, SIZE_96 = 60 };
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 600000 };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N_CLAIMS; i++) {
                ShmMapKey k = key_of(f, &i);
                ShmClaimed claimed;

                assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
        }
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, N_CLAIMS + i, SIZE_96), 0);
        fill_with_objects(f);
        for (uint32_t i = N; i < 10 * N; i++) {
                assert_int_equal(put(f, N_CLAIMS + i, SIZE_96), 0);
                assert_int_equal(get(f, N_CLAIMS + i), SIZE_96);
        }
        assert_true(totals(f).evictions > 0);
}

/* For the index a slab is emptied at once, and entries go on making room for each other: they leave the slab to it. */
static void test_evict_for_the_index(void **state) {
        const ShmEvict evict = { .options.evict = SHM_MAP_EVICT_SIEVE,
                                 .cost = COST,
                                 .class = 2,
                                 .epoch = SHM_EPOCH_CURRENT,
                                 .for_index = true };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_true(shm_evict_for_memory(&f->actor, &f->trie, &evict, 0));
        assert_true(totals(f).evictions > 1);
        assert_int_not_equal(f->arena.header->maps[f->trie.map - 1].full_ms, 0);
}

/* Memory that values of one size have serves values of another, back and forth; large ones too. */
static void test_evict_for_other_sizes(void **state) {
        static const uint32_t sizes[] = { 16, 700, 88, 100000, 3000, 24, 1000, 200, 300000, 40 };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t round = 0; round < sizeof(sizes) / sizeof(sizes[0]); round++) {
                uint32_t size = sizes[round], n = (2 << 20) / (size + 36);

                for (uint32_t i = 0; i < n; i++) {
                        assert_int_equal(put(f, round << 20 | i, size), 0);
                        assert_int_equal(get(f, round << 20 | i), size);
                }
                assert_true(totals(f).bytes > (1 << 20) / 3);
        }
        assert_int_equal(totals(f).failures, 0);
}

static void put_among_chunks(Fixture *f) {
        ShmMapHand *hands = f->arena.header->maps[f->trie.map - 1].hands;
        uint64_t sweep = UINT64_C(100) << 32, at_end = (uint64_t) f->arena.n_slabs << 7, handle;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 2000; i++)
                assert_int_equal(put(f, i, 4000), 0);
        for (uint32_t i = 0; i < 400; i++)
                assert_int_equal(put(f, i, 15 * 4096), 0);
        while (shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        /* A hand may have taken them out of the set meanwhile. */
        for (uint32_t i = 0; i < shm_arena_n_slabs_ever(&f->arena); i++)
                if (f->arena.lines[i].maps != 0)
                        shm_set_add(&f->arena, shm_set_of_map(&f->arena, f->trie.map), i);
        for (uint32_t i = 0; i < f->arena.n_classes; i++)
                hands[i].place = sweep | at_end;
        hands[shm_arena_class(&f->arena, 4096)].place = sweep;
        assert_int_equal(put(f, 10000, SIZE), 0);
        assert_int_equal(totals(f).failures, 0);
}

/* Slabs that had entries have chunks by now, more of them than are emptied for one put; and a hand is to pass them. */
static void test_evict_among_chunks(void **state) {
        put_among_chunks(*state);
}

/* Their bytes are a copy of an entry, as a value may be: each slab of them looks as if there were one. */
static void test_evict_among_copies(void **state) {
        const uint32_t key = 1;
        Fixture *f = *state;
        ShmMapKey k = key_of(f, &key);
        ShmTrieCursor c;
        ShmMapView view;

        assert_int_equal(put(f, key, 0), 0);
        assert_int_equal(shm_map_find(&f->trie, &k, &c, &view), 0);
        for (uint32_t i = 0; i < VALUE_MAX; i += 4096) {
                memcpy(buffer + i, view.bytes - sizeof(ShmMapLeaf), sizeof(ShmMapLeaf));
                memcpy(buffer + i + sizeof(ShmMapLeaf), &key, sizeof(key));
        }
        put_among_chunks(f);
        memset(buffer, 0, sizeof(buffer));
}

/* A block leaves much of a head that its slot had. That is no entry: no slab is emptied of it. */
static void test_evict_among_blocks(void **state) {
        enum { KEYS = 20000, LARGEST = 100000 };
        Fixture *f = *state;

        srand(1);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 40000; i++) {
                uint32_t key = (uint32_t) rand() % KEYS;
                bool small = (uint32_t) rand() % 4 != 0;

                assert_int_equal(put(f, key, (uint32_t) rand() % (small ? LARGEST / 10 : LARGEST)), 0);
        }
        assert_int_equal(totals(f).failures, 0);
}

/* A size that many want gets memory from one that few want. */
static void test_evict_balances_sizes(void **state) {
        enum { N = 2000 };
        Fixture *f = *state;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 4000; i++)
                assert_int_equal(put(f, i, 300), 0);
        for (uint32_t i = 0; i < 150 * N; i++)
                assert_int_equal(put(f, 10000 + i % N, SIZE), 0);
        for (uint32_t i = 0; i < N; i++)
                n += get(f, 10000 + i) == SIZE;
        assert_true(n > N * 9 / 10);
}

/* Memory that is no entry's cannot be made free. */
static void test_evict_nothing_there(void **state) {
        Fixture *f = *state;
        uint64_t handle;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        assert_int_equal(put(f, 1, SIZE), 0);
        while (shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        while (shm_object_alloc(&f->actor, SLOT, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        assert_int_equal(put(f, 2, 3000), -ENOMEM);
}

static uint64_t hands_of(Fixture *f) {
        uint64_t sum = 0;

        for (uint32_t class = 0; class < f->arena.n_classes; class ++)
                sum += hand_load(&f->trie, class);
        return sum;
}

/* The only entry is a claim that stands. Puts that fail do not each search the pool for another one. */
static void test_evict_in_vain_once(void **state) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 60000 };
        const uint32_t key = 1;
        Fixture *f = *state;
        ShmClaimed claimed = {};
        uint64_t handle, slab = 0, last = 0, node = 0, before;
        ShmMapKey k;

        k = key_of(f, &key);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
        while (shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                node = slab, slab = handle;
        assert_int_equal(shm_object_free(&f->actor, slab), 0);
        while (shm_object_alloc(&f->actor, SLOT, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                last = handle;
        before = hands_of(f);
        assert_int_equal(put(f, 2, SIZE), -ENOMEM);
        assert_int_not_equal(hands_of(f), before);
        before = hands_of(f);
        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(put(f, 2, SIZE), -ENOMEM);
        assert_int_equal(hands_of(f), before);
        /* An entry that is put since, for which a slot and a slab are free, is found at once. */
        assert_int_equal(shm_object_free(&f->actor, last), 0);
        assert_int_equal(shm_object_free(&f->actor, node), 0);
        assert_int_equal(put(f, 2, SIZE), 0);
        assert_int_equal(put(f, 3, SIZE), 0);
        assert_int_equal(totals(f).evictions, 1);
        assert_int_equal(get(f, 2), -ENOENT);
}

static int alloc_or_evict(Fixture *f, uint32_t size) {
        uint32_t n = 0;
        uint64_t handle;
        int r;

        do
                r = shm_object_alloc(&f->actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL);
        while (r == -ENOMEM && shm_evict_for_object(&f->actor, size, n++));
        return r;
}

/* Entries that may be evicted go for objects, and for maps that do not evict. */
static void test_evict_for_everybody(void **state) {
        enum { N_PUTS = 300, N_OBJECTS = 10000 };
        Fixture *f = *state;
        ShmTrie kept;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        while (totals(f).evictions == 0)
                assert_int_equal(put(f, n++, SIZE), 0);
        open_map(f, "map.kept", &kept);
        for (uint32_t i = 0; i < N_PUTS; i++)
                assert_int_equal(put_in(f, &kept, i, i % 2 ? 3000 : 6000, SHM_MAP_PUT, 0), 0);
        assert_int_equal(f->actor.record->map, 0);
        for (n = 0; n < N_OBJECTS && alloc_or_evict(f, n % 3 ? 500 : 2000) == 0; n++)
                assert_int_equal(f->actor.record->map, 0);
        assert_in_range(n, 1, N_OBJECTS - 1);
        /* Nodes of the index are left, and perhaps the last entries of a slab. */
        assert_in_range(totals(f).entries, 0, 64);
        assert_int_equal(totals(f).entries, shm_map_count(&f->trie));
        assert_int_equal(f->actor.record->counters[SHM_COUNT_FAILURES], 1);
        for (uint32_t i = 0; i < N_PUTS; i++)
                assert_int_equal(get_in(f, &kept, i), i % 2 ? 3000 : 6000);
        assert_int_equal(totals_of(f, &kept).evictions, 0);
}

/* A second map that evicts, while the first one has the whole pool. */
static void open_beside(Fixture *f, uint32_t n, uint32_t size, ShmTrie *ret) {
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        open_map(f, "map.beside", ret);
        TRIE_SET_OPTION(ret, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(put(f, i, size), 0);
        assert_true(totals(f).evictions > 0);
}

static void put_beside(Fixture *f, const ShmTrie *trie, uint32_t n, uint32_t size) {
        for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(put_in(f, trie, i, size, SHM_MAP_PUT, 0), 0);
                assert_int_equal(get_in(f, trie, i), size);
        }
        assert_int_equal(totals_of(f, trie).failures, 0);
}

/* Each entry counts where it was, and the counts of the map that loses entries are right. */
static void assert_counted(Fixture *f, const ShmTrie *trie) {
        assert_int_equal(totals_of(f, trie).entries, shm_map_count(trie));
}

/* A map that comes late gets memory of the one that has all, up to an equal share. */
static void test_evict_beside(void **state) {
        static const uint32_t sizes[] = { SIZE, 20, 700, 3000, 30000, 100000 };
        Fixture *f = *state;
        ShmTrie other;

        open_beside(f, 40000, SIZE, &other);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                put_beside(f, &other, (8 << 20) / (sizes[i] + 100), sizes[i]);
                assert_in_range(totals_of(f, &other).bytes, 5 << 18, 11 << 18);
                assert_in_range(totals(f).bytes, 5 << 18, 11 << 18);
        }
        assert_counted(f, &f->trie);
        assert_counted(f, &other);
}

/* The small map keeps all that it has, whatever is put into the large one. */
static void test_evict_beside_small(void **state) {
        enum { N = 500 };
        Fixture *f = *state;
        ShmTrie other;

        open_beside(f, 40000, SIZE, &other);
        put_beside(f, &other, N, SIZE);
        for (uint32_t i = 0; i < 40000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(totals_of(f, &other).entries, N);
        assert_int_equal(totals_of(f, &other).evictions, 0);
}

/* Slabs have entries of both: a put of a new size takes few of either. */
static void test_evict_beside_mixed(void **state) {
        enum { N = 50 };
        Fixture *f = *state;
        uint64_t before;
        ShmTrie other;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        open_map(f, "map.beside", &other);
        TRIE_SET_OPTION(&other, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 40000; i++) {
                assert_int_equal(put_in(f, &other, i, SIZE, SHM_MAP_PUT, 0), 0);
                assert_int_equal(put(f, i, SIZE), 0);
        }
        before = totals(f).entries + totals_of(f, &other).entries;
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, 50000 + i, 4000), 0);
        assert_in_range(before + N - totals(f).entries - totals_of(f, &other).entries, N, 40 * N);
        assert_counted(f, &f->trie);
        assert_counted(f, &other);
}

/* Maps that do not evict, or do no more, and claims lose nothing. */
static void test_evict_beside_never(void **state) {
        enum { N = 15000 };
        Fixture *f = *state;
        ShmTrie other;

        open_map(f, "map.beside", &other);
        TRIE_SET_OPTION(&other, evict, SHM_MAP_EVICT_SIEVE);
        put_beside(f, &other, N, SIZE);
        TRIE_SET_OPTION(&other, evict, SHM_MAP_EVICT_NEVER);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 20000; i++)
                assert_int_equal(put(f, i, i % 2 ? SIZE : 700), 0);
        assert_true(totals(f).evictions > 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(get_in(f, &other, i), SIZE);
        assert_int_equal(totals_of(f, &other).evictions, 0);
}

static bool is_offered(Fixture *f, const ShmTrie *trie) {
        return shm_map_set_has(&f->arena.header->evicting, trie->map - 1);
}

/* The largest map has nothing to give: its count is wrong. The next one has. The first is not searched by each put. */
static void test_evict_beside_nothing(void **state) {
        Fixture *f = *state;
        ShmMapHand *hand;
        ShmTrie other;
        uint64_t place;

        open_beside(f, 40000, SIZE, &other);
        put_beside(f, &other, 1000, SIZE);
        f->arena.header->maps[other.map - 1].counts[SHM_MAP_BYTES] = UINT64_C(1) << 30;
        for (uint32_t i = 0; i < 1000; i++) {
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(shm_map_delete(&f->actor, &other, &key, 0), 0);
        }
        hand = &f->arena.header->maps[other.map - 1].hands[shm_arena_class(&f->arena, SLOT)];
        for (uint32_t i = 0; i < 5000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_false(is_offered(f, &other));
        place = hand->place;
        for (uint32_t i = 0; i < 5000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(hand->place, place);
        put_beside(f, &other, 1, SIZE);
        assert_true(is_offered(f, &other));
}

/* Nobody knows that the map with all memory evicts, and the own one has nothing. */
static void test_evict_beside_unknown(void **state) {
        Fixture *f = *state;
        uint64_t handle;
        ShmTrie other;

        open_beside(f, 40000, SIZE, &other);
        while (shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        f->arena.header->evicting = (ShmMapSet){};
        put_beside(f, &other, 1, 3000);
        assert_true(is_offered(f, &f->trie));
        put_beside(f, &other, 30000, SIZE);
        assert_in_range(totals_of(f, &other).bytes, 5 << 18, 11 << 18);
}

/* The name of a map that evicted is no map's, or another one's, by now. */
static void test_evict_beside_gone(void **state) {
        Fixture *f = *state;
        ShmTrie other;

        open_beside(f, 40000, SIZE, &other);
        put_beside(f, &other, 10000, SIZE);
        assert_int_equal(shm_root_set(&f->arena, "map.test", f->trie.root, 0), 0);
        put_beside(f, &other, 40000, SIZE);
        open_map(f, "map.test", &f->trie);
        put_beside(f, &other, 40000, 700);
        assert_counted(f, &other);
}

/*
 * The slabs of the largest map have objects, too: none of them gets empty. A put into the other map, which has slots of
 * its size itself, does not take all entries of the largest.
 */
static void test_evict_beside_objects(void **state) {
        enum { N = 2000, MORE = 20, SIZE_BESIDE = 3 * SIZE };
        Fixture *f = *state;
        uint64_t handle, before;
        ShmTrie other;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        open_map(f, "map.beside", &other);
        TRIE_SET_OPTION(&other, evict, SHM_MAP_EVICT_SIEVE);
        put_beside(f, &other, N, SIZE_BESIDE);
        for (uint32_t i = 0; totals(f).evictions == 0; i++) {
                assert_int_equal(put(f, i, SIZE), 0);
                (void) shm_object_alloc(&f->actor, SLOT, SHM_EPOCH_CURRENT, NULL, &handle, NULL);
        }
        before = totals(f).entries;
        for (uint32_t i = 0; i < MORE; i++)
                assert_int_equal(put_in(f, &other, N + i, SIZE_BESIDE, SHM_MAP_PUT, 0), 0);
        assert_true(totals(f).entries + MORE * 100 > before);
        assert_counted(f, &f->trie);
        assert_counted(f, &other);
}

/* The heads of large entries are in one slab, and chunks are whole slabs: one such entry is enough. */
static void test_evict_one_large_entry(void **state) {
        const ShmEvict evict = { .options.evict = SHM_MAP_EVICT_SIEVE,
                                 .cost = COST,
                                 .class = 2,
                                 .epoch = SHM_EPOCH_CURRENT,
                                 .for_index = true };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 5; i++)
                assert_int_equal(put(f, i, 100000), 0);
        assert_true(shm_evict_for_memory(&f->actor, &f->trie, &evict, 0));
        assert_int_equal(totals(f).evictions, 1);
}

/* A value that has no room in the whole pool: no entry goes for it. */
static void test_evict_nothing_for_too_large(void **state) {
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&f->trie, value_max, SHM_LEAF_VALUE_MAX);
        for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(put(f, 1000, VALUE_MAX), -ENOMEM);
        assert_int_equal(totals(f).evictions, 0);
        assert_int_equal(totals(f).entries, 100);
}

/* Objects have too much of the pool. */
static void test_evict_nothing_in_vain(void **state) {
        Fixture *f = *state;
        uint64_t handles[150], evictions;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 150; i++)
                assert_int_equal(
                        shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handles[i], NULL), 0);
        for (uint32_t i = 0; totals(f).evictions < 100; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        evictions = totals(f).evictions;
        assert_int_equal(put(f, 1 << 20, 500000), -ENOMEM);
        assert_int_equal(totals(f).evictions, evictions);
        assert_int_equal(put(f, 1 << 20, 150000), 0);
        /* Slabs that came free are seen at once. */
        assert_int_equal(put(f, 1 << 20, 500000), -ENOMEM);
        for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(shm_object_free(&f->actor, handles[i]), 0);
        assert_int_equal(put(f, 1 << 20, 500000), 0);
}

/*
 * The map's count is less than the index's part of its entries. Objects have too much of the pool: no entry goes in
 * vain for that.
 */
static void test_evict_nothing_by_wrong_count(void **state) {
        Fixture *f = *state;
        uint64_t handle;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 150; i++)
                assert_int_equal(shm_object_alloc(&f->actor, 4096, SHM_EPOCH_CURRENT, NULL, &handle, NULL),
                                 0);
        for (uint32_t i = 0; i < 500; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        f->arena.header->maps[f->trie.map - 1].counts[SHM_MAP_BYTES] -= totals(f).bytes;
        assert_int_equal(put(f, 1 << 20, 500000), -ENOMEM);
        assert_int_equal(totals(f).evictions, 0);
}

/*
 * Small objects have nearly all of the pool: 42 of them are a slab, though 42 are no divisor of its bytes. The largest
 * value that has room beside them has it, too, if another entry has to go for that.
 */
static void test_evict_beside_small_objects(void **state) {
        enum { OBJECT = 96, OTHER = 150000, N_LEFT = 100 };
        Fixture *f = *state;
        uint32_t n = (f->arena.n_slabs - N_LEFT) * (SHM_SLAB_SIZE / OBJECT), size = N_LEFT * SHM_SLAB_SIZE;
        ShmMapKey key = key_of(f, &n);
        uint64_t handle;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(shm_object_alloc(&f->actor, OBJECT, SHM_EPOCH_CURRENT, NULL, &handle, NULL),
                                 0);
        while (put(f, n, size) != 0)
                size -= SHM_SLAB_SIZE;
        assert_true(size > OTHER);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        assert_int_equal(put(f, 1, OTHER), 0);
        assert_int_equal(put(f, n, size), 0);
        assert_int_equal(totals(f).evictions, 1);
}

/* In the end the value is larger than all entries: there is room beside them, and in what their index has. */
static void test_evict_sparse(void **state) {
        enum { LARGE = 850000 };
        Fixture *f = *state;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (; totals(f).evictions == 0; n++)
                assert_int_equal(put(f, n, SIZE), 0);
        assert_int_equal(put(f, n, LARGE), 0);
        for (n = 0; totals(f).entries < 1000; n++)
                assert_int_equal(put(f, n, SIZE), 0);
        for (uint32_t i = 0; i < n; i++) {
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(i % 10 ? shm_map_delete(&f->actor, &f->trie, &key, 0) : 0, 0);
        }
        assert_int_equal(put(f, n, LARGE), 0);
}

/* The memory of the slabs in use, those of the index too. */
static uint64_t bytes_in_use(const Fixture *f) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < shm_arena_n_slabs_ever(&f->arena); i++)
                n += slab_word_state(shm_slab_word(&f->arena, i)) >= SLAB_PARTIAL;
        return n * SHM_SLAB_COST;
}

/*
 * Entries of one size after another come, three times as many as the limit allows. Of each size 3 % are in use, which
 * keep no slabs once others come.
 */
static void test_evict_after_sizes_change(void **state) {
        static const uint32_t sizes[] = { 8, 40, 88, 200, 500, 200, 88, 40, 8 };
        enum { LIMIT = 2 << 20 };
        Fixture *f = *state;
        uint32_t key = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&f->trie, limit_bytes, LIMIT);
        srand(7);
        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                uint32_t first = key, n = 3 * LIMIT / (uint32_t) shm_leaf_size(4, sizes[i], 0);

                for (; key < first + n; key++) {
                        assert_int_equal(put(f, key, sizes[i]), 0);
                        (void) get(f, first + (uint32_t) rand() % (key - first + 1) / 33 * 33);
                        (void) get(f, first + (uint32_t) rand() % (key - first + 1) / 33 * 33);
                }
                assert_true(bytes_in_use(f) < LIMIT * UINT64_C(12) / 10);
        }
}

/* Large entries that are in use stay, though slabs have little else: they take more memory than these have free. */
static void test_evict_spares_large_in_sparse(void **state) {
        enum { LARGE = 100000, N = 64, LIMIT = 1 << 20 };
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(put(f, i, LARGE), 0);
        for (uint32_t i = 1; i < N - 1; i++) {
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        }
        shm_actor_enter(&f->actor);
        (void) shm_cache_drain(&f->actor);
        shm_actor_leave(&f->actor);
        TRIE_SET_OPTION(&f->trie, limit_bytes, LIMIT);
        for (uint32_t i = N; totals(f).evictions < 4 * LIMIT / COST; i++) {
                assert_int_equal(get(f, 0), LARGE);
                assert_int_equal(get(f, N - 1), LARGE);
                assert_int_equal(put(f, i, SIZE), 0);
        }
}

/* The pool was full a moment ago. But slabs of the put's class have free slots that no thread caches: nothing goes. */
static void test_evict_nothing_beside_free_slots(void **state) {
        enum { N = 20 };
        Fixture *f = *state;
        uint64_t n_evictions;
        uint32_t n = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        while (totals(f).evictions < 100)
                assert_int_equal(put(f, n++, SIZE), 0);
        for (uint32_t i = n - N; i < n; i++) {
                ShmMapKey key = key_of(f, &i);

                (void) shm_map_delete(&f->actor, &f->trie, &key, 0); /* it may have been evicted */
        }
        shm_actor_enter(&f->actor);
        (void) shm_cache_drain(&f->actor);
        shm_actor_leave(&f->actor);
        f->arena.header->maps[f->trie.map - 1].full_ms = shm_map_now_ms(&f->trie) + 50;
        n_evictions = totals(f).evictions;
        for (uint32_t i = n - N; i < n - N / 2; i++) /* which need no more nodes than before */
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(totals(f).evictions, n_evictions);
}

/* The pool was full at a time that is not to come for long, as far as one can tell: no entry goes for that. */
static void test_evict_scribbled_full(void **state) {
        Fixture *f = *state;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        f->arena.header->maps[f->trie.map - 1].full_ms = UINT64_MAX;
        for (uint32_t i = 0; i < 1000; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        assert_int_equal(totals(f).evictions, 0);
}

/* Slabs have numbers of 24 bits, and the hand is past the last one at the end of a sweep. */
static void test_evict_largest_pool(void **state) {
        Fixture *f = *state;
        ShmMapState *map = &f->arena.header->maps[f->trie.map - 1];
        uint32_t class = shm_arena_class(&f->arena, SLOT);

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 10 * COST);
        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(put(f, i, SIZE), 0);
        f->arena.header->n_slabs_ever.value = SHM_SLABS_MAX;
        for (uint32_t i = 10; i < 40; i++) {
                /* All that is before the last slab is passed. */
                map->hands[class].place |= (uint64_t) (SHM_SLABS_MAX - 1) << 7;
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(get(f, i), SIZE);
                assert_int_equal(totals(f).entries, 10);
        }
        f->arena.header->n_slabs_ever.value = 100;
}

/* A claim does not fit beside a key as large as keys can be. */
static void test_evict_claim_too_large(void **state) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 60000 };
        Fixture *f = *state;
        uint32_t size = (uint32_t) shm_map_key_max(&f->arena);
        ShmMapKey k = { buffer, size, shm_hash(&f->arena, buffer, size) };
        ShmClaimed claimed = {};

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), -E2BIG);
}

/* Hands and masks with any content: puts end, and entries that are there have their values. */
static void test_evict_scribbled(void **state) {
        Fixture *f = *state;
        ShmMapState *map = &f->arena.header->maps[f->trie.map - 1];

        TRIE_SET_OPTION(&f->trie, limit_bytes, 100 * COST);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        srand(7);
        for (uint32_t i = 0; i < 2000; i++) {
                uint64_t random = (uint64_t) rand() << 33 ^ (uint64_t) rand() << 11 ^ (uint64_t) rand();

                map->hands[i % SHM_MAP_HANDS].place = random;
                f->arena.lines[i % 8].young[i / 8 % 2] = random * 3;
                f->arena.lines[i % 8].visited = random * 5;
                if (i % 10 == 0)
                        map->classes = random;
                assert_int_equal(put(f, i, SIZE), 0);
                assert_int_equal(get(f, i), SIZE);
        }
}

/* Which maps evict, and how large they are, is not to be trusted: roots name no map, or one of a revoked era. */
static void test_evict_beside_scribbled(void **state) {
        Fixture *f = *state;
        uint64_t handle;
        ShmTrie other;

        assert_int_equal(shm_object_alloc(&f->actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
        assert_int_equal(shm_root_set(&f->arena, "object", 0, handle), 0);
        assert_int_equal(shm_root_set(&f->arena, "stale", 0, handle ^ UINT64_C(1) << 63), 0);
        open_beside(f, 40000, SIZE, &other);
        srand(7);
        for (uint32_t i = 0; i < 20000; i++) {
                uint64_t random = (uint64_t) rand() << 33 ^ (uint64_t) rand() << 11 ^ (uint64_t) rand();

                for (unsigned k = 0; k < 4; k++)
                        f->arena.header->evicting.bits[k] = i % 3 ? random : UINT64_MAX;
                f->arena.header->maps[i % SHM_ROOTS_MAX].counts[SHM_MAP_BYTES] = random >> i % 64;
                f->arena.lines[i % f->arena.n_slabs].maps |= random;
                assert_int_equal(put_in(f, &other, i, i % 5 ? SIZE : 700, SHM_MAP_PUT, 0), 0);
        }
        (void) put(f, 1, 500000);
}

/* Percentage of gets that miss, of the map and of SIEVE as it is in its paper. Returns how far the map's is above. */
static double compare(Fixture *f, const char *name, double s, uint32_t n_keys, uint64_t limit, bool mixed) {
        enum { N = 400000 };
        uint32_t misses = 0, exact_misses = 0;
        double percent, exact_percent;
        Sieve exact;
        Zipf zipf;

        open_map(f, name, &f->trie);
        TRIE_SET_OPTION(&f->trie, limit_bytes, limit);
        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        sieve_init(&exact, n_keys, limit);
        zipf_init(&zipf, n_keys, s);
        for (uint32_t i = 0; i < N; i++) {
                uint32_t key = zipf_draw(&zipf);
                uint32_t size = mixed ? (key * UINT32_C(2654435761) >> 16) % 1000 : SIZE;
                uint32_t cost =
                        f->arena.classes[shm_arena_class(&f->arena, shm_leaf_size(4, size, 0))].share +
                        SHM_INDEX_SHARE;

                exact_misses += !sieve_use(&exact, key, cost);
                if (get(f, key) < 0) {
                        misses++;
                        assert_int_equal(put(f, key, size), 0);
                }
        }
        percent = 100.0 * misses / N;
        exact_percent = 100.0 * exact_misses / N;
        print_message("%s: %.2f %% miss, exact %.2f %%\n", name, percent, exact_percent);
        assert_true(totals(f).bytes <= limit);
        assert_true(percent <= exact_percent + 1);
        sieve_deinit(&exact);
        zipf_deinit(&zipf);
        return percent - exact_percent;
}

static void test_evict_misses_as_sieve(void **state) {
        Fixture *f = *state;

        compare(f, "map.0.8", 0.8, 20000, 1000 * COST, false);
        compare(f, "map.1.0", 1.0, 20000, 2000 * COST, false);
        compare(f, "map.1.2", 1.2, 20000, 500 * COST, false);
        /* Where sizes differ, and much has to go, it misses less. */
        assert_true(compare(f, "map.0.8 mixed", 0.8, 20000, 2000 * 600, true) < -0.5);
        compare(f, "map.1.0 mixed", 1.0, 20000, 1000 * 600, true);
        compare(f, "map.1.2 mixed", 1.2, 20000, 500 * 600, true);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_limit_never, setup, teardown),
                cmocka_unit_test_setup_teardown(test_limit_below_an_entry, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_keeps_the_limit, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_spares_what_is_used, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_spares_small, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_hand_far_behind, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_hands_go_together, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_keeps_few_slots, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_knows_the_mean, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_spares_what_it_replaces, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_visits, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_spares_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_given_up_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_ended_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_given_up_claims_for_memory, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_ends_soon, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_leaves_others, setup, teardown),
                cmocka_unit_test_setup_teardown(test_limit_lowered, setup, teardown),
                cmocka_unit_test_setup_teardown(test_limit_lowered_never, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_from_now_on, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_large_values, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_for_memory, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_far_from_the_hand, setup_two_gib, teardown),
                cmocka_unit_test_setup_teardown(test_evict_with_a_shared_bit, setup_eight_mib, teardown),
                cmocka_unit_test_setup_teardown(test_evict_after_a_census, setup_eight_mib, teardown),
                cmocka_unit_test_setup_teardown(test_evict_behind_claims, setup_eight_mib, teardown),
                cmocka_unit_test_setup_teardown(test_evict_for_the_index, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_for_other_sizes, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_among_chunks, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_among_copies, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_among_blocks, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_balances_sizes, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_nothing_there, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_in_vain_once, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_for_everybody, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_small, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_mixed, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_never, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_gone, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_nothing, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_unknown, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_objects, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_one_large_entry, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_nothing_for_too_large, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_nothing_in_vain, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_nothing_by_wrong_count, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_small_objects, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_sparse, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_after_sizes_change, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_spares_large_in_sparse, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_nothing_beside_free_slots, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_evict_claim_too_large, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_scribbled, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_beside_scribbled, setup_middle, teardown),
                cmocka_unit_test_setup_teardown(test_evict_scribbled_full, setup, teardown),
                cmocka_unit_test_setup_teardown(test_evict_largest_pool, setup_largest, teardown),
                cmocka_unit_test_setup_teardown(test_evict_misses_as_sieve, setup, teardown),
        };

        return cmocka_run_group_tests_name("map-evict", tests, NULL, NULL);
}
