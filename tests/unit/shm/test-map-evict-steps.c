/* Accesses to shared memory that an eviction takes, and what comes between two. Built with SHM_STEP. */
#include <errno.h>
#include <stdio.h>

#include "shm/arena/root.h"
#include "shm/cache/cache.h"
#include "shm/map/entry/claim.h"
#include "shm/map/evict/evict-pass.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/slab/set.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/api/entry-cost.h"
#include "tests/util/map-options.h"

#define ARENA_SIZE (UINT64_C(1) << 30)
#define SMALL_ARENA_SIZE (UINT64_C(16) << 20)
#define COST ENTRY_COST(64)
#define N_ENTRIES 20U
#define N_CLAIMS 50000U
#define N_PUTS 1000U
#define N_MAPS_EXACT 64U /* the line of a slab has a bit for each of so many maps */
#define STEPS_MAX 400U /* for a put */
#define STEPS_LONG_MAX 700000U /* for a put that looks in vain for an entry, in a large pool */
#define STEPS_BESIDE_MAX 3200U /* for a put that empties a slab of 32 entries, or fails */
#define STEPS_WORDS_MAX                                                                                      \
        1024U /* more for a search of slab words before -ENOMEM; the pool has four times as many */
#define STEPS_MAP_MAX 100U /* more for each map of the pool */

static uint64_t n_steps;

/* Another thread does this between an access to the word, or the first change of it, and the next access. */
static struct {
        const uint64_t *word;
        uint32_t n_before; /* accesses to it that come before that one */
        uint64_t before; /* for a change */
        bool waits_for_change;
        bool is_due;
        void (*work)(void *userdata);
        void *userdata;
} other;

void shm_step(const void *address) {
        n_steps++;
        if (other.word && other.waits_for_change && *other.word != other.before) {
                other.word = NULL;
                other.is_due = true;
        }
        if (other.is_due) {
                other.is_due = false;
                other.work(other.userdata);
        }
        if (other.word && !other.waits_for_change && other.word == address) {
                if (other.n_before > 0) {
                        other.n_before--;
                        return;
                }
                other.word = NULL;
                other.is_due = true;
        }
}

static ShmMapKey key_of(const ShmTrie *trie, const uint32_t *number) {
        return (ShmMapKey){ number, sizeof(*number), shm_hash(trie->arena, number, sizeof(*number)) };
}

static int try_put(ShmActor *actor, const ShmTrie *trie, uint32_t number, uint32_t size, uint32_t epoch) {
        static uint8_t value[4096];
        const ShmMapPut put = { .value = value, .value_size = size, .epoch = epoch };
        const ShmMapKey key = key_of(trie, &number);

        return shm_map_put(actor, trie, &key, &put, NULL);
}

static void put_large(ShmActor *actor, const ShmTrie *trie, uint32_t number, uint32_t size, uint32_t epoch) {
        assert_int_equal(try_put(actor, trie, number, size, epoch), 0);
}

static void put(ShmActor *actor, const ShmTrie *trie, uint32_t number) {
        put_large(actor, trie, number, sizeof(number), SHM_EPOCH_CURRENT);
}

/* Two threads have their entries in slabs far from each other's. */
static void put_all(ShmActor *actors, const ShmTrie *trie, uint32_t from, uint32_t to) {
        for (uint32_t i = from; i < to; i++)
                put(&actors[i % 2], trie, i);
}

/*
 * So many maps without entries, which may lose entries if they have any; or with an entry each that they keep, since
 * they do not evict any more.
 */
static void make_maps(ShmActor *actor, uint32_t epoch, uint32_t n, bool keep) {
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t root;
        ShmTrie trie;

        for (uint32_t i = 0; i < n; i++) {
                snprintf(name, sizeof(name), "map.%u", i);
                assert_int_equal(shm_trie_create(actor, epoch, &root), 0);
                assert_int_equal(shm_root_set(actor->arena, name, 0, root), 0);
                assert_int_equal(shm_object_publish(actor, root), 0);
                assert_int_equal(shm_trie_open(&trie, actor->arena, root), 0);
                shm_map_attach(&trie);
                TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
                if (keep) {
                        put(actor, &trie, i);
                        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_NEVER);
                }
        }
}

/*
 * A small map in a large pool, whose other slabs are in use by others: the hand does not pass them all, sweep by sweep.
 * (They would not all be committed for this test: they have no word.) Nor does it look at each name of the pool there.
 */
static void test_evict_small_map(void **state) {
        ShmMapTotals totals;
        ShmActor actors[2];
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, ARENA_SIZE);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_actor_init(&actors[i], &arena, 0, i + 1), 0);
        map_trie_create(&actors[0], &trie);
        make_maps(&actors[0], trie.epoch, N_MAPS_EXACT - 1, false);
        TRIE_SET_OPTION(&trie, limit_bytes, N_ENTRIES * COST);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        put_all(actors, &trie, 0, 2 * N_ENTRIES);
        arena.header->n_slabs_ever.value = arena.n_slabs;

        n_steps = 0;
        put_all(actors, &trie, 2 * N_ENTRIES, 2 * N_ENTRIES + N_PUTS);
        assert_in_range(n_steps, N_PUTS, N_PUTS * STEPS_MAX);

        shm_map_totals(&arena, trie.map - 1, &totals);
        assert_in_range(totals.entries, 1, N_ENTRIES + 2);
        assert_int_equal(totals.evictions, 2 * N_ENTRIES + N_PUTS - totals.entries);
        for (uint32_t i = 0; i < 2; i++)
                map_actor_leave(&actors[i]);
        shm_arena_deinit(&arena);
        (void) state;
}

static void open_second(ShmActor *actor, uint32_t epoch, ShmTrie *ret) {
        uint64_t root;

        assert_int_equal(shm_trie_create(actor, epoch, &root), 0);
        assert_int_equal(shm_root_set(actor->arena, "map.second", 0, root), 0);
        assert_int_equal(shm_object_publish(actor, root), 0);
        assert_int_equal(shm_trie_open(ret, actor->arena, root), 0);
        shm_map_attach(ret);
}

static void limit_to_four(const ShmTrie *trie) {
        TRIE_SET_OPTION(trie, limit_bytes, 4 * COST);
        TRIE_SET_OPTION(trie, evict, SHM_MAP_EVICT_SIEVE);
}

/* A small map that had entries all over a large one: the hand visits each of these slabs once. */
static void put_beside_large(bool emptied, uint32_t n_between) {
        enum { N_LARGE = 100000, EACH = 50 };
        ShmTrie small, large;
        ShmMapTotals totals;
        ShmActor actor;
        ShmArena arena;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &small);
        make_maps(&actor, small.epoch, n_between, false);
        open_second(&actor, small.epoch, &large);
        if (!emptied)
                limit_to_four(&small);
        for (uint32_t i = 0; i < N_LARGE; i++) {
                put(&actor, &large, i);
                if (i % EACH == 0)
                        put(&actor, &small, i);
        }
        for (uint32_t i = 0; emptied && i < N_LARGE; i++) {
                const ShmMapKey key = key_of(&large, &i);

                assert_int_equal(shm_map_delete(&actor, &large, &key, 0), 0);
                (void) shm_map_delete(&actor, &small, &key, 0);
        }
        limit_to_four(&small);
        n_steps = 0;
        for (uint32_t i = 0; i < N_PUTS; i++)
                put(&actor, &small, N_LARGE + i);
        assert_in_range(n_steps, N_PUTS, N_PUTS * STEPS_MAX);
        shm_map_totals(&arena, small.map - 1, &totals);
        assert_in_range(totals.entries, 1, 5);
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
}

/* They have entries of the large one alone by now. */
static void test_evict_beside_large(void **state) {
        put_beside_large(false, 0);
        (void) state;
}

/* Whatever the number of the large one is. */
static void test_evict_beside_large_in_number(void **state) {
        put_beside_large(false, 31);
        put_beside_large(false, 63);
        (void) state;
}

/* They have none. */
static void test_evict_beside_emptied(void **state) {
        put_beside_large(true, 0);
        (void) state;
}

/*
 * A map has nothing to give though it seems full: entries that were revoked are still counted. Puts do not look at all
 * slabs of a large pool for that, sweep by sweep, but each goes on where the last one ended.
 */
static void test_evict_in_vain(void **state) {
        ShmMapTotals totals;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, 2 * ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&trie, limit_bytes, ARENA_SIZE);
        state_of(&trie)->counts[SHM_MAP_BYTES] = ARENA_SIZE;
        state_of(&trie)->classes = 1;
        for (uint32_t i = 0; i < arena.n_slabs; i++)
                shm_set_add(&arena, shm_set_of_map(&arena, trie.map), i);
        arena.header->n_slabs_ever.value = arena.n_slabs;
        for (uint32_t i = 0; i < N_ENTRIES; i++) {
                n_steps = 0;
                put(&actor, &trie, i);
                assert_in_range(n_steps, 1, STEPS_LONG_MAX);
        }
        shm_map_totals(&arena, trie.map - 1, &totals);
        assert_in_range(totals.evictions, N_ENTRIES / 2, N_ENTRIES);
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

/* A hand that comes to no slab of its class stops after LOOKS_MAX slabs, and the next search goes on from there. */
static void test_evict_goes_on(void **state) {
        const uint32_t n = 2 * ARENA_SIZE / SHM_SLAB_SIZE;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, 2 * ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        state_of(&trie)->classes = 1 | 2;
        for (uint32_t i = arena.header->n_slabs_ever.value; i < n; i++) {
                arena.lines[i].word = (SlabWord){ .low = 1, .high = slab_key(1, 0, 1) };
                shm_set_add(&arena, shm_set_of_map(&arena, trie.map), i);
        }
        arena.header->n_slabs_ever.value = n;
        for (uint32_t i = 1; i < n / LOOKS_MAX; i++) {
                assert_int_equal(shm_evict_next(&actor, &trie, 0, ANY_KEY, 1, LOOKS_MAX, 0), 0);
                assert_true(hand_unpack(hand_load(&trie, 0)).slab >= i * LOOKS_MAX);
        }
        arena.header->n_slabs_ever.value = 0; /* the words are not true */
        shm_arena_deinit(&arena);
        (void) state;
}

/* The same where claims have all room: they are not evicted. */
static void test_evict_among_claims(void **state) {
        const ShmMapClaim claim = { .epoch = SHM_EPOCH_CURRENT, .limit_ms = 60000 };
        ShmClaimed claimed = {};
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        for (uint32_t i = 0; i < N_CLAIMS; i++) {
                const ShmMapKey key = key_of(&trie, &i);

                assert_int_equal(shm_map_claim(&actor, &trie, &key, &claim, &claimed), 0);
        }
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&trie, limit_bytes, COST);
        for (uint32_t i = 0; i < N_ENTRIES; i++) {
                n_steps = 0;
                put(&actor, &trie, N_CLAIMS + i);
                assert_in_range(n_steps, 1, STEPS_LONG_MAX);
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

typedef struct Beside {
        ShmActor *actor;
        ShmTrie *trie;
        uint32_t number;
        uint32_t sweeps; /* that end meanwhile */
} Beside;

static uint32_t size_of(uint32_t number) {
        return number % 2 ? 4 : 200;
}

static void put_next(Beside *b) {
        put_large(b->actor, b->trie, b->number, size_of(b->number), SHM_EPOCH_CURRENT);
        b->number++;
}

static void put_beside(void *userdata) {
        put_next(userdata);
}

/* A hand begins the next sweep only where all others are at the end of this one. */
static void assert_hands_together(const ShmTrie *trie) {
        uint64_t last, first, classes;

        (void) shm_hand_hindmost(trie, &last, &first);
        assert_in_range(sweeps_ahead(first, last), 0, 1);
        for (classes = classes_in_use(trie); classes != 0; classes &= classes - 1) {
                uint64_t w = hand_load(trie, (uint32_t) __builtin_ctzll(classes));

                if (sweeps_ahead(first, w) > 0)
                        assert_int_equal(hand_unpack(w).slab, trie->arena->n_slabs);
        }
}

/*
 * A put by another thread moves the hand that is furthest behind, after this thread chose it. If this thread moved it
 * on from there, one class would begin the next sweep, and decide its kind, before the others have ended theirs.
 */
static void test_evict_hands_beside(void **state) {
        enum { N = 600, PUTS = 3000 };
        Beside mine, others;
        ShmMapTotals totals;
        ShmActor actors[2];
        uint64_t first, w;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_actor_init(&actors[i], &arena, 0, i + 1), 0);
        map_trie_create(&actors[0], &trie);
        mine = (Beside){ &actors[0], &trie, 0, 0 };
        others = (Beside){ &actors[1], &trie, 1000000, 0 };
        while (mine.number < N)
                put_next(&mine);
        arena.header->n_slabs_ever.value = arena.n_slabs;
        shm_map_totals(&arena, trie.map - 1, &totals);
        TRIE_SET_OPTION(&trie, limit_bytes, totals.bytes);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < PUTS; i++) {
                other.word = &hand_of(&trie, shm_hand_hindmost(&trie, &w, &first))->place;
                other.work = put_beside;
                other.userdata = &others;
                put_next(&mine);
                other.word = NULL;
                assert_hands_together(&trie);
        }
        assert_in_range(others.number, 1000000 + PUTS / 2, 1000000 + PUTS);
        for (uint32_t i = 0; i < 2; i++)
                map_actor_leave(&actors[i]);
        shm_arena_deinit(&arena);
        (void) state;
}

static void take_slab(void *userdata) {
        const Beside *b = userdata;

        assert_int_not_equal(shm_evict_take_slab(b->trie, NO_KEY, 0), UINT32_MAX);
}

/* The same, where whole slabs are taken. */
static void test_take_slabs_beside(void **state) {
        enum { N = 2000, N_LARGE = 500, TAKEN = 3000 };
        Beside mine;
        uint64_t first, w;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        mine = (Beside){ &actor, &trie, 0, 0 };
        while (mine.number < N)
                put_next(&mine);
        for (uint32_t i = 0; i < N_LARGE; i++) /* the last slabs are of one class */
                put_large(&actor, &trie, N + 2 * i, size_of(0), SHM_EPOCH_CURRENT);
        arena.header->n_slabs_ever.value = arena.n_slabs;
        for (uint32_t i = 0; i < TAKEN; i++) {
                other.word = &hand_of(&trie, shm_hand_hindmost(&trie, &w, &first))->place;
                other.work = take_slab;
                other.userdata = &mine;
                take_slab(&mine);
                other.word = NULL;
                assert_hands_together(&trie);
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

/* The key of the entry in the last slot that the hand passed. */
static uint32_t passed_key(const ShmTrie *trie, ShmHand h) {
        SlotId id = slot_id(h.slab, h.slot - 1);
        ShmMapView view = {};
        uint32_t number;

        assert_int_not_equal(h.slot, 0);
        assert_int_equal(shm_map_view(trie->arena,
                                      shm_handle_make(trie->arena->key, id, *shm_slot_tag(trie->arena, id)),
                                      &view),
                         0);
        memcpy(&number, view.bytes, sizeof(number));
        return number;
}

static SlotId slot_of(const ShmTrie *trie, uint32_t number) {
        const ShmMapKey key = key_of(trie, &number);
        ShmTrieCursor c;
        ShmMapView view;

        assert_int_equal(shm_map_find(trie, &key, &c, &view), 0);
        return shm_handle_slot(view.handle);
}

static void replace_victim(void *userdata) {
        Beside *b = userdata;
        uint64_t w = hand_load(b->trie, 0);
        ShmHand h = hand_unpack(w);
        uint32_t victim = passed_key(b->trie, h);
        const ShmMapKey key = key_of(b->trie, &victim);

        assert_int_equal(shm_map_delete(b->actor, b->trie, &key, 0), 0);
        hand_of(b->trie, 0)->place = w + ((uint64_t) b->sweeps << SWEEP_SHIFT);
        put(b->actor, b->trie, b->number);
        assert_int_equal(slot_of(b->trie, b->number).value, slot_id(h.slab, h.slot - 1).value);
}

/* A thread stops after it moved a hand past its victim. It does not evict the entry that has this slot by then. */
static void evict_late(uint32_t sweeps) {
        enum { N = 200, NEW = 1000, BESIDE = 2000 };
        ShmMapTotals totals;
        ShmActor actors[2];
        Beside others;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_actor_init(&actors[i], &arena, 0, i + 1), 0);
        map_trie_create(&actors[0], &trie);
        for (uint32_t i = 0; i < N; i++)
                put(&actors[0], &trie, i);
        shm_map_totals(&arena, trie.map - 1, &totals);
        TRIE_SET_OPTION(&trie, limit_bytes, totals.bytes);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        others = (Beside){ &actors[1], &trie, BESIDE, sweeps };
        other.word = &hand_of(&trie, 0)->place;
        other.before = *other.word;
        other.waits_for_change = true;
        other.work = replace_victim;
        other.userdata = &others;
        put(&actors[0], &trie, NEW);
        assert_null(other.word);
        other.waits_for_change = false;
        (void) slot_of(&trie, NEW);
        (void) slot_of(&trie, BESIDE);
        shm_map_totals(&arena, trie.map - 1, &totals);
        assert_int_equal(totals.entries, N);
        for (uint32_t i = 0; i < 2; i++)
                map_actor_leave(&actors[i]);
        shm_arena_deinit(&arena);
}

static void test_evict_late(void **state) {
        (void) state;
        evict_late(0);
        evict_late(1);
}

/* Two maps that evict: into the first one so much is put. */
static void begin_beside(ShmArena *arena, ShmActor *actor, ShmTrie *late, ShmTrie *first, uint32_t n) {
        map_arena_create(arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(actor, arena, 0, 1), 0);
        map_trie_create(actor, late);
        map_trie_create_as(actor, "map.first", first);
        TRIE_SET_OPTION(late, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(first, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < n; i++)
                put_large(actor, first, i, 88, SHM_EPOCH_CURRENT);
}

/* A map that comes late takes memory of one that has nothing of its sizes, nor of its epoch. */
static void test_evict_beside_other_keys(void **state) {
        static const uint32_t sizes[] = { 700, 20, 3000 };
        ShmTrie late, first;
        ShmActor actor;
        ShmArena arena;

        begin_beside(&arena, &actor, &late, &first, SMALL_ARENA_SIZE / 100);
        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                n_steps = 0;
                for (uint32_t k = 0; k < N_PUTS; k++)
                        put_large(&actor, &late, i * N_PUTS + k, sizes[i],
                                  i == 1 ? first.epoch : SHM_EPOCH_CURRENT);
                assert_in_range(n_steps, N_PUTS, N_PUTS * STEPS_BESIDE_MAX);
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

/* Where objects have all memory, a put fails without a look at all slabs that other maps had entries in. */
static void evict_beside_empty(uint32_t n_maps, bool keep, uint32_t steps_max) {
        enum { N = SMALL_ARENA_SIZE / 200 };
        ShmTrie late, first;
        ShmActor actor;
        ShmArena arena;
        uint64_t handle;

        begin_beside(&arena, &actor, &late, &first, N);
        make_maps(&actor, late.epoch, n_maps, keep);
        for (uint32_t i = 0; i < N; i++) {
                const ShmMapKey key = key_of(&first, &i);

                assert_int_equal(shm_map_delete(&actor, &first, &key, 0), 0);
        }
        for (uint32_t size = 4096; size >= 64; size /= 2)
                while (shm_object_alloc(&actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                        ;

        for (uint32_t i = 0; i < 10; i++) {
                n_steps = 0;
                assert_int_equal(try_put(&actor, &late, i, 88, SHM_EPOCH_CURRENT), -ENOMEM);
                assert_in_range(n_steps, 1, steps_max);
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
}

static void test_evict_beside_empty(void **state) {
        evict_beside_empty(0, false, STEPS_BESIDE_MAX);
        (void) state;
}

/* The steps grow with the number of maps, not with its square. */
static void test_evict_beside_many_empty(void **state) {
        evict_beside_empty(SHM_ROOTS_MAX - 2, false, STEPS_BESIDE_MAX + SHM_ROOTS_MAX * STEPS_MAP_MAX);
        (void) state;
}

static void test_evict_beside_many_that_keep(void **state) {
        evict_beside_empty(SHM_ROOTS_MAX - 2, true, STEPS_BESIDE_MAX + SHM_ROOTS_MAX * STEPS_MAP_MAX);
        (void) state;
}

/*
 * A put that fails takes as long in a large pool as in a small one: it does not look at all slabs. The first one may,
 * for a value in several slabs.
 */
static void test_evict_full_of_objects(void **state) {
        static const uint32_t sizes[] = { 88, 20000 };
        ShmTrie late, first;
        ShmActor actor;
        ShmArena arena;
        uint64_t handle;

        begin_beside(&arena, &actor, &late, &first, 0);
        for (uint32_t size = 4096; size >= 64; size /= 2)
                while (shm_object_alloc(&actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                        ;
        for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
                (void) try_put(&actor, &late, 0, sizes[k], SHM_EPOCH_CURRENT);
                /* However long this test takes: */
                actor.unfit.until_ms = actor.vain.until_ms = UINT64_MAX;
                for (uint32_t i = 0; i < 10; i++) {
                        actor.searched_msec = 0;
                        n_steps = 0;
                        assert_int_equal(try_put(&actor, &late, i, sizes[k], SHM_EPOCH_CURRENT), -ENOMEM);
                        assert_in_range(n_steps, 1, STEPS_BESIDE_MAX + STEPS_WORDS_MAX);
                }
        }
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

/* All that are left. Returns how many. */
static uint64_t take_notes(ShmActor *actor) {
        uint64_t n = 0;

        while (shm_actor_note(actor, n + 1, 0, 0) == 0)
                n++;
        return n;
}

static void drop_notes(ShmActor *actor, uint64_t n) {
        for (; n > 0; n--)
                assert_int_equal(shm_actor_unnote(actor, n), 0);
}

static void take_memory(ShmActor *actor) {
        uint64_t handle;

        for (uint32_t size = 4096; size >= 64; size /= 2)
                while (shm_object_alloc(actor, size, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                        ;
}

/* A thread with too many pending objects cannot delete an entry: its put fails without a try of each. */
static void test_evict_without_notes(void **state) {
        ShmMapTotals totals;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;
        uint64_t n;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        for (uint32_t i = 0; i < N_PUTS; i++)
                put(&actor, &trie, i);
        shm_map_totals(&arena, trie.map - 1, &totals);
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&trie, limit_bytes, totals.bytes);
        n = take_notes(&actor);
        n_steps = 0;
        assert_int_equal(try_put(&actor, &trie, N_PUTS, sizeof(uint32_t), SHM_EPOCH_CURRENT), -ENOBUFS);
        assert_in_range(n_steps, 1, STEPS_MAX);

        TRIE_SET_OPTION(&trie, limit_bytes, 0);
        take_memory(&actor);
        for (uint64_t full_ms = 0; full_ms < 2; full_ms++) {
                state_of(&trie)->full_ms = full_ms * (shm_map_now_ms(&trie) + 50);
                n_steps = 0;
                assert_int_equal(try_put(&actor, &trie, N_PUTS, sizeof(uint32_t), SHM_EPOCH_CURRENT),
                                 -ENOMEM);
                assert_in_range(n_steps, 1, STEPS_BESIDE_MAX);
        }

        drop_notes(&actor, n);
        put(&actor, &trie, N_PUTS);
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

/* The note of a path that is kept for the next put is one that is left. */
static void test_evict_with_the_kept_note(void **state) {
        const ShmMapKey keys[] = { { "a", 1, UINT64_C(1) << 63 },
                                   { "b", 1, (UINT64_C(1) << 63) + (1 << 20) } };
        const ShmMapPut empty = { .value = "", .epoch = SHM_EPOCH_CURRENT };
        ShmMapTotals totals;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;
        uint64_t n;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        actor.keeps_path = true;
        TRIE_SET_OPTION(&trie, evict, SHM_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(shm_map_put(&actor, &trie, &keys[i], &empty, NULL), 0);
        assert_int_equal(shm_map_delete(&actor, &trie, &keys[1], 0), 0);
        assert_int_not_equal(actor.kept.note, 0);
        n = take_notes(&actor);
        take_memory(&actor);
        (void) try_put(&actor, &trie, N_PUTS, sizeof(uint32_t), SHM_EPOCH_CURRENT);
        shm_map_totals(&arena, trie.map - 1, &totals);
        assert_int_not_equal(totals.evictions, 0);
        drop_notes(&actor, n);
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
        (void) state;
}

typedef struct Naming {
        ShmArena *arena;
        const ShmTrie *trie;
        ShmMapCensus census;
} Naming;

/* As a process that makes a map under a name that was another map's. */
static void name_again(void *userdata) {
        const Naming *naming = userdata;

        assert_int_equal(shm_root_set(naming->arena, "map.test", 0, naming->trie->root), 0);
        shm_map_census_drop(naming->arena, naming->trie->map - 1, &naming->census);
}

/*
 * A sweep finds that an entry of the names has no map. Before it notes that, there is one, which is to be counted: it
 * stays to be. The sweep looks twice, for a map and for one that was removed, and each look loads the handle twice: so
 * the other thread comes after the first look, in the second one, and after that. (In the first look, the sweep would
 * find the map.)
 */
static void sweep_beside_naming(uint32_t n_before) {
        ShmMapSweep sweep = {};
        Naming naming;
        ShmActor actor;
        ShmArena arena;
        ShmTrie trie;

        map_arena_create(&arena, SMALL_ARENA_SIZE);
        assert_int_equal(shm_actor_init(&actor, &arena, 0, 1), 0);
        map_trie_create(&actor, &trie);
        put(&actor, &trie, 1);
        naming = (Naming){ .arena = &arena, .trie = &trie };
        shm_map_census_begin(&arena, trie.map - 1, &naming.census);
        shm_map_census_drop(&arena, trie.map - 1, &naming.census);
        assert_int_equal(shm_root_set(&arena, "map.test", trie.root, 0), 0);
        sweep.root = trie.map - 1;
        other.word = &arena.header->roots[trie.map - 1].handle;
        other.n_before = n_before;
        other.work = name_again;
        other.userdata = &naming;
        while (!shm_map_sweep_step(&actor, &sweep, 7))
                ;
        assert_false(other.word || other.is_due);
        assert_true(shm_map_is_miscounted(&arena, trie.map - 1));
        map_actor_leave(&actor);
        shm_arena_deinit(&arena);
}

static void test_sweep_beside_naming(void **state) {
        for (uint32_t n_before = 1; n_before < 4; n_before++)
                sweep_beside_naming(n_before);
        (void) state;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_evict_small_map),
                cmocka_unit_test(test_evict_beside_large),
                cmocka_unit_test(test_evict_beside_large_in_number),
                cmocka_unit_test(test_evict_beside_emptied),
                cmocka_unit_test(test_evict_in_vain),
                cmocka_unit_test(test_evict_goes_on),
                cmocka_unit_test(test_evict_among_claims),
                cmocka_unit_test(test_evict_hands_beside),
                cmocka_unit_test(test_take_slabs_beside),
                cmocka_unit_test(test_evict_late),
                cmocka_unit_test(test_evict_beside_other_keys),
                cmocka_unit_test(test_evict_beside_empty),
                cmocka_unit_test(test_evict_beside_many_empty),
                cmocka_unit_test(test_evict_full_of_objects),
                cmocka_unit_test(test_evict_without_notes),
                cmocka_unit_test(test_evict_beside_many_that_keep),
                cmocka_unit_test(test_evict_with_the_kept_note),
                cmocka_unit_test(test_sweep_beside_naming),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
