/* Faults are planted one at a time, by hand, in an arena that was used in earnest. */
#include "shm/maintain/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/arena/client.h"
#include "shm/epoch/epoch-open.h"
#include "shm/maintain/refs.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/stats/stats.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

typedef struct Expected {
        uint64_t lost, doubled, in_flight, hints;
        uint64_t other; /* problems of other kinds */
        const char *text; /* in the first of them */
} Expected;

/* The check must neither write nor touch the slabs: while it runs, it could not. */
static void check(const ShmArena *arena, ShmCheck *ret) {
        size_t metadata = (size_t) (arena->slabs - arena->base);

        assert_int_equal(mprotect(arena->base, arena->size, PROT_NONE), 0);
        assert_int_equal(mprotect(arena->base, metadata, PROT_READ), 0);
        assert_int_equal(shm_check(arena, ret), 0);
        assert_int_equal(mprotect(arena->base, arena->size, PROT_READ | PROT_WRITE), 0);
}

static void expect_at(const ShmArena *arena, int line, Expected e) {
        ShmCheck c;

        check(arena, &c);
        if (c.lost_slots != e.lost || c.doubled_slots != e.doubled || c.in_flight_slots != e.in_flight ||
            c.wrong_hints != e.hints || c.problems != e.lost + e.doubled + e.hints + e.other ||
            (e.text && (c.n_texts == 0 || !strstr(c.texts[0], e.text)))) {
                for (size_t i = 0; i < c.n_texts; i++)
                        print_error("        %s\n", c.texts[i]);
                print_error("lost %d doubled %d in_flight %d hints %d problems %d\n", (int) c.lost_slots,
                            (int) c.doubled_slots, (int) c.in_flight_slots, (int) c.wrong_hints,
                            (int) c.problems);
                _fail(__FILE__, line);
        }
}

#define expect(t, ...) expect_at(&(t)->arena, __LINE__, (Expected){ __VA_ARGS__ })
#define expect_clean(t) expect(t, .lost = 0)

/* Objects of several classes and epochs, some freed; FULL, PARTIAL, FREE and UNCOMMITTED slabs. */
static int setup(void **state) {
        ShmClientInfo info = { .pid = 1, .start_time = 2 };
        uint64_t handles[300];
        TestArena *t;
        uint32_t n;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        if (shm_client_get(&t->arena, 0, &info))
                assert_int_equal(shm_client_add(&t->arena, &info), 0);
        for (uint32_t i = 0; i < 300; i++)
                handles[i] = test_alloc(t, 64 + i % 3 * 300, shm_epoch_number(i % 2, 0));
        for (uint32_t i = 150; i < 300; i += 5)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        assert_int_equal(shm_pages_commit(&t->control, 16, &n), 0);
        assert_int_equal(shm_pages_trim(&t->control, 12, UINT32_MAX) > 0, 1);
        return 0;
}

static SlabWord *word(TestArena *t, uint32_t slab) {
        return &t->arena.lines[slab].word;
}

/* The first slab that is somewhere, whose word is to be damaged. */
static uint32_t slab_in(TestArena *t, SlabState state) {
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&t->arena); slab++)
                if (slab_word_state(*word(t, slab)) == state)
                        return slab;
        fail_msg("there is no slab %s", slab_state_to_string(state));
        return 0;
}

static SlotId first(TestArena *t, uint32_t slab, bool taken) {
        uint64_t bits = word(t, slab)->low & ~shm_slab_class(&t->arena, *word(t, slab))->tail_mask;

        return slot_id(slab, (uint32_t) __builtin_ctzll(taken ? bits : ~word(t, slab)->low));
}

/* A slot that is taken, with an even tag, and named nowhere. */
static SlotId lose(TestArena *t) {
        SlotId id = first(t, slab_in(t, SLAB_PARTIAL), false);

        word(t, slot_id_slab(id))->low |= slot_id_mask(id);
        return id;
}

static ShmCache *cache_of(TestArena *t, uint32_t record, uint32_t slab) {
        return test_cache(t, record, slab_word_epoch(*word(t, slab)), slab_word_class(*word(t, slab)));
}

static void push(TestArena *t, uint32_t record, SlotId id) {
        ShmCache *cache = cache_of(t, record, slot_id_slab(id));

        cache->slots[cache->count++] = id.value;
}

static ShmActor other_actor(TestArena *t) {
        ShmActor other;

        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 2), 0);
        return other;
}

static void set_state(TestArena *t, uint32_t record, ShmRecordState state) {
        t->arena.heads[record].word = (uint64_t) state << 56 | 1;
}

static void test_clean(void **state) {
        TestArena *t = *state;
        uint32_t number;

        expect_clean(t);
        push(t, t->actor.id, lose(t));
        expect_clean(t);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        expect_clean(t);
}

/* The intent that an earlier control died with, until a pass of repair has settled it. */
static void test_kept(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);

        shm_record_use_cache(t->control.record, (uint32_t) (cache_of(t, 0, slot_id_slab(id)) -
                                                            shm_arena_cache(&t->arena, 0, 0, 0)));
        push(t, 0, id);
        expect(t, .in_flight = 1);
}

static void test_clean_new(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmArena arena;

        assert_int_equal(shm_arena_create(&arena, &geometry, NULL), 0);
        expect_at(&arena, __LINE__, (Expected){});
        shm_arena_deinit(&arena);
}

static void test_clean_100k_objects(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmClientInfo info = { .pid = 1 };
        static uint64_t handles[100000];
        TestArena t;
        ShmCheck c;

        geometry.slabs_size = 16384 * SHM_SLAB_SIZE;
        test_arena_init(&t, &geometry);
        if (shm_client_get(&t.arena, 0, &info))
                assert_int_equal(shm_client_add(&t.arena, &info), 0);
        for (uint32_t i = 0; i < 100000; i++)
                handles[i] = test_alloc(&t, 1 + i * 7919 % 768, shm_epoch_number(i % 4, 0));
        expect_clean(&t);
        check(&t.arena, &c);
        assert_true(c.slots >= 100000 && c.slabs == shm_arena_n_slabs_ever(&t.arena));
        for (uint32_t i = 0; i < 100000; i += 1 + i % 2)
                assert_int_equal(shm_object_free(&t.actor, handles[i]), 0);
        expect_clean(&t);
        test_arena_deinit(&t);
}

static void test_lost(void **state) {
        TestArena *t = *state;
        char text[64];
        SlotId id = lose(t);

        snprintf(text, sizeof(text), "slab %u slot %u ", slot_id_slab(id), slot_id_slot(id));
        expect(t, .lost = 1, .text = text);
        lose(t);
        expect(t, .lost = 2, .text = "lost");
}

static void test_lost_every_slot(void **state) {
        TestArena *t = *state;
        uint32_t slab = slab_in(t, SLAB_FULL);
        uint32_t n = shm_slab_class(&t->arena, *word(t, slab))->n_slots;

        for (uint32_t i = 0; i < n; i++)
                t->arena.tags[slab].tag[i]++;
        expect(t, .lost = n);
}

static void test_doubled_live_and_free(void **state) {
        TestArena *t = *state;
        SlotId id = first(t, slab_in(t, SLAB_PARTIAL), false);

        ++*shm_slot_tag(&t->arena, id);
        expect(t, .doubled = 1, .text = "free in the bitmap, but live");
        ++*shm_slot_tag(&t->arena, id);
        ++*shm_slot_tag(&t->arena, slot_id(slab_in(t, SLAB_FREE), 63));
        expect(t, .doubled = 1, .text = "free in the bitmap, but live");
}

/* A tag beyond the class's count. */
static void test_doubled_live_beyond(void **state) {
        TestArena *t = *state;
        uint32_t slab = 0;

        while (shm_slab_class(&t->arena, *word(t, slab))->n_slots == 64 ||
               slab_word_state(*word(t, slab)) != SLAB_PARTIAL)
                slab++;
        ++*shm_slot_tag(&t->arena, slot_id(slab, 63));
        expect(t, .doubled = 1);
}

static void test_doubled_two_caches(void **state) {
        TestArena *t = *state;
        ShmActor other = other_actor(t);
        SlotId id = lose(t);

        push(t, t->actor.id, id);
        push(t, other.id, id);
        expect(t, .doubled = 1, .text = "in caches of record 1 and record 2");
        shm_actor_enter(&other); /* being inside an operation explains nothing here */
        expect(t, .doubled = 1);
}

/* The first two records whose caches name it, for a text. */
static void test_find(void **state) {
        TestArena *t = *state;
        ShmActor other = other_actor(t);
        uint32_t records[2] = {};
        SlotId id = lose(t);

        assert_int_equal(shm_refs_find(&t->arena, id, records), 0);
        push(t, other.id, id);
        assert_int_equal(shm_refs_find(&t->arena, id, records), 1);
        assert_int_equal(records[0], other.id);
        push(t, t->actor.id, id);
        push(t, 0, id);
        assert_int_equal(shm_refs_find(&t->arena, id, records), 2);
        assert_int_equal(records[0], 0);
        assert_int_equal(records[1], t->actor.id);
        set_state(t, t->actor.id, SHM_RECORD_UNUSED);
        assert_int_equal(shm_refs_find(&t->arena, id, records), 2);
        assert_int_equal(records[1], other.id);
}

static void test_doubled_one_cache_twice(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);

        push(t, t->actor.id, id);
        push(t, t->actor.id, id);
        expect(t, .doubled = 1, .text = "record 1, twice");
}

static void test_doubled_free_in_cache(void **state) {
        TestArena *t = *state;

        push(t, t->actor.id, first(t, slab_in(t, SLAB_PARTIAL), false));
        expect(t, .doubled = 1, .text = "free in the bitmap, but in a cache of record 1");
}

static void test_doubled_live_in_cache(void **state) {
        TestArena *t = *state;

        push(t, t->actor.id, first(t, slab_in(t, SLAB_PARTIAL), true));
        expect(t, .doubled = 1, .text = "live, but in a cache of record 1");
}

/* Its owner has made the tag odd and was stopped before it lowered count. */
static void test_in_flight_live_in_cache(void **state) {
        TestArena *t = *state;

        push(t, t->actor.id, first(t, slab_in(t, SLAB_PARTIAL), true));
        shm_actor_enter(&t->actor);
        expect(t, .in_flight = 1);
}

static void test_doubled_wrong_cache(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);
        ShmCache *cache = test_cache(t, t->actor.id, 3, 0);

        cache->slots[cache->count++] = id.value;
        expect(t, .doubled = 1, .text = "another class or epoch");
        id = lose(t);
        cache->slots[cache->count++] = id.value;
        expect(t, .doubled = 2);
}

/* Every record costs a piece of the budget. */
static void test_gather_steps(void **state) {
        TestArena *t = *state;
        uint32_t n = 0, n_slabs = shm_arena_n_slabs_ever(&t->arena), budget;
        void *memory;
        ShmRefs refs;

        memory = test_calloc(1, shm_refs_whole_size(&t->arena, n_slabs));
        shm_refs_init_whole(&refs, &t->arena, n_slabs, memory);
        shm_refs_begin(&refs);
        do {
                budget = 1;
                n++;
        } while (!shm_refs_step(&refs, &budget));
        assert_true(n >= shm_arena_n_records_ever(&t->arena));
        test_free(memory);
}

static ShmCheckRun *begin_check(TestArena *t, ShmCheck *result) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(&t->arena);

        return shm_check_begin(test_calloc(1, shm_check_size(&t->arena, n_slabs)), &t->arena, n_slabs, NULL,
                               result);
}

/* Where nothing is in question the records are gathered once. */
static void test_clean_steps(void **state) {
        TestArena *t = *state;
        uint32_t done, total, n = 0;
        ShmCheck c;
        ShmCheckRun *run = begin_check(t, &c);

        shm_check_progress(run, &done, &total);
        assert_int_equal(done, 0);
        assert_int_equal(total, shm_arena_n_slabs_ever(&t->arena));
        while (shm_check_step(run, UINT32_MAX))
                n++;
        assert_int_equal(n, shm_arena_n_records_ever(&t->arena));
        shm_check_progress(run, &done, &total);
        assert_int_equal(done, total);
        test_free(run);
        assert_int_equal(c.problems, 0);
}

static void test_in_flight_claim(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);

        shm_actor_intend_mask(&t->actor, slot_id_mask(id));
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
        expect(t, .in_flight = 1);
        shm_actor_intend_mask(&t->actor, ~slot_id_mask(id));
        expect(t, .lost = 1,
               .in_flight = (uint64_t) __builtin_popcountll(word(t, slot_id_slab(id))->low) - 1);
        shm_actor_intend(&t->actor, 0);
        expect(t, .lost = 1);
}

static void test_in_flight_take(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);

        shm_actor_intend(&t->actor, shm_intent_take(*shm_slot_tag(&t->arena, id) | 1, id));
        expect(t, .in_flight = 1);
}

/* FREE names the slot only once its own compare-and-set has made the tag even. */
static void test_in_flight_free(void **state) {
        TestArena *t = *state;
        SlotId id = first(t, slab_in(t, SLAB_PARTIAL), true);
        uint32_t tag = *shm_slot_tag(&t->arena, id);

        shm_actor_intend(&t->actor, shm_intent_free(tag, id));
        expect_clean(t);
        *shm_slot_tag(&t->arena, id) = tag + 1;
        expect(t, .in_flight = 1);
        *shm_slot_tag(&t->arena, id) = tag + 3;
        expect(t, .lost = 1);
}

/* A flush has freed some of its slots already; the rest is as ever. */
static void test_in_flight_flush(void **state) {
        TestArena *t = *state;
        SlotId free_one = first(t, slab_in(t, SLAB_PARTIAL), false), id = lose(t);
        uint32_t slab = slot_id_slab(id), cache;

        word(t, slab)->low &= ~slot_id_mask(id);
        id = lose(t);
        push(t, t->actor.id, id);
        word(t, slab)->low |= slot_id_mask(free_one);
        id = first(t, slab, false);
        push(t, t->actor.id, id);
        expect(t, .doubled = 1);
        cache = shm_arena_cache_index(&t->arena, slab_word_epoch(*word(t, slab)),
                                      slab_word_class(*word(t, slab)));
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, cache << 9 | 1));
        expect_clean(t);
        word(t, slab)->low |= slot_id_mask(id);
        expect(t, .in_flight = 1);
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, (cache + 1) << 9 | 1));
        expect_clean(t);
}

/* Slots of the dead are for repair; they are neither lost nor held. */
static void test_in_flight_dead(void **state) {
        TestArena *t = *state;

        push(t, t->actor.id, lose(t));
        set_state(t, t->actor.id, SHM_RECORD_LEFT);
        expect_clean(t);
        set_state(t, t->actor.id, SHM_RECORD_DEAD);
        expect(t, .in_flight = 1);
        set_state(t, t->actor.id, SHM_RECORD_ROLLED_BACK);
        expect(t, .in_flight = 1);
        set_state(t, t->actor.id, SHM_RECORD_UNUSED);
        expect(t, .lost = 1);
}

static void test_in_flight_note(void **state) {
        TestArena *t = *state;
        SlotId id = lose(t);
        uint32_t tag = *shm_slot_tag(&t->arena, id);

        assert_int_equal(shm_actor_note(&t->actor, shm_handle_make(t->arena.key, id, tag + 1), 0, 0), 0);
        expect(t, .in_flight = 1);
}

static uint64_t *hint_word(TestArena *t, uint32_t set, uint32_t level, uint32_t index) {
        return t->arena.sets + set * t->arena.shape.stride + t->arena.shape.level_off[level] + index;
}

/* The bit at the leaf, and the one at the root, in each set that wants the slab. */
static void wrong_hint(TestArena *t, SlabState state, uint32_t set) {
        uint32_t slab = slab_in(t, state), leaf = t->arena.shape.n_levels - 1;
        uint64_t *w = hint_word(t, set, leaf, slab / 64), old = *w, n;

        assert_true(shm_set_has(&t->arena, set, slab));
        *w &= ~(UINT64_C(1) << slab % 64);
        expect(t, .hints = 1, .text = "lacks it at level 0");
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        expect_clean(t);
        shm_actor_intend(&t->actor, 0);
        *w = old;

        w = hint_word(t, set, 0, 0);
        old = *w;
        *w = 0;
        n = (uint64_t) __builtin_popcountll(*hint_word(t, set, leaf, 0));
        if (set == SHM_SET_UNCOMMITTED)
                expect(t, .hints = n, .text = "lacks it at level 1");
        else
                expect(t, .hints = n);
        /* Another slab of the group explains the bit that is missing above the leaves. */
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_SLAB, slab ^ 1, 0));
        expect_clean(t);
        shm_actor_intend(&t->actor, 0);
        *w = old;
        expect_clean(t);
}

/* Nobody has cleared stale bits yet: only the wanted bits may count. */
static void settle_hints(TestArena *t) {
        for (uint32_t set = 0; set < shm_set_partial(&t->arena, t->arena.n_epochs, 0); set++)
                for (uint32_t slab = 0; slab < t->arena.n_slabs; slab++)
                        if (shm_set_has(&t->arena, set, slab))
                                shm_set_remove(&t->arena, set, slab);
}

static void test_wrong_hint(void **state) {
        TestArena *t = *state;
        SlabWord w = *word(t, slab_in(t, SLAB_PARTIAL)), full = *word(t, slab_in(t, SLAB_FULL));

        settle_hints(t);
        wrong_hint(t, SLAB_FREE, SHM_SET_FREE);
        wrong_hint(t, SLAB_UNCOMMITTED, SHM_SET_UNCOMMITTED);
        wrong_hint(t, SLAB_PARTIAL, shm_set_partial(&t->arena, slab_word_epoch(w), slab_word_class(w)));
        wrong_hint(t, SLAB_PARTIAL, shm_set_of_epoch(&t->arena, slab_word_epoch(w)));
        wrong_hint(t, SLAB_FULL, shm_set_of_epoch(&t->arena, slab_word_epoch(full)));
}

/* Beyond the first group. */
static void test_wrong_hint_far(void **state) {
        TestArena *t = *state;
        uint32_t n;

        for (int i = 0; i < 2; i++)
                assert_int_equal(shm_pages_commit(&t->control, 64, &n), 0);
        settle_hints(t);
        for (uint32_t slab = 60; slab < 100; slab++) {
                uint64_t *w = hint_word(t, SHM_SET_FREE, t->arena.shape.n_levels - 1, slab / 64), old = *w;

                assert_int_equal(slab_word_state(*word(t, slab)), SLAB_FREE);
                *w &= ~(UINT64_C(1) << slab % 64);
                expect(t, .hints = 1);
                *w = old;
        }
}

static void test_stale_hint(void **state) {
        TestArena *t = *state;

        for (uint32_t set = 0; set < shm_set_partial(&t->arena, t->arena.n_epochs, 0); set++)
                for (uint32_t slab = 0; slab < t->arena.n_slabs; slab++)
                        shm_set_add(&t->arena, set, slab);
        expect_clean(t);
}

/* A check by the smallest steps; after so many of them the hint is set. How many steps there were. */
static unsigned check_in_steps(TestArena *t, uint32_t slab, unsigned n_before, ShmCheck *ret) {
        ShmCheckRun *run;
        unsigned n = 0;
        bool more;

        *hint_word(t, SHM_SET_FREE, t->arena.shape.n_levels - 1, slab / 64) &= ~(UINT64_C(1) << slab % 64);
        run = begin_check(t, ret);
        do {
                if (n++ == n_before)
                        shm_set_add(&t->arena, SHM_SET_FREE, slab);
                more = shm_check_step(run, 1);
                assert_true(n < 100000);
        } while (more);
        test_free(run);
        return n;
}

/* A hint may be on its way: it is wrong only if it is missing for as long as the check looks. */
static void test_late_hint(void **state) {
        TestArena *t = *state;
        uint32_t slab = slab_in(t, SLAB_FREE), n;
        ShmCheck c;

        settle_hints(t);
        n = check_in_steps(t, slab, UINT32_MAX, &c);
        assert_int_equal(c.wrong_hints, 1);
        assert_int_equal(c.problems, 1);
        assert_int_equal(c.slabs, shm_arena_n_slabs_ever(&t->arena));
        for (unsigned i = 0; i < n; i++) {
                assert_true(check_in_steps(t, slab, i, &c) <= n);
                assert_int_equal(c.wrong_hints, 0);
                assert_int_equal(c.problems, 0);
        }
}

static void put(TestArena *t, uint32_t slab, SlabState state, uint32_t holder) {
        SlabWord *w = word(t, slab);

        w->high &= ~(SLAB_STATE_MASK | SLAB_HOLDER_MASK);
        w->high |= state | (uint64_t) holder << SLAB_HOLDER_SHIFT;
}

static void test_busy_without_owner(void **state) {
        TestArena *t = *state;
        ShmActor other = other_actor(t);
        uint32_t slab = slab_in(t, SLAB_FREE);

        put(t, slab, SLAB_BUSY, other.id);
        expect(t, .other = 1, .text = "nobody is at work");
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_RUN, slab - 1, 2));
        expect_clean(t);
        set_state(t, other.id, SHM_RECORD_DEAD); /* repair will undo it */
        expect_clean(t);
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_RUN, slab - 1, 1));
        expect(t, .other = 1);
        set_state(t, other.id, SHM_RECORD_UNUSED);
        expect(t, .other = 1, .text = "its holder's record is not in use");
        put(t, slab, SLAB_BUSY, 4095);
        expect(t, .other = 1, .text = "its holder is no record");
}

static void test_held(void **state) {
        TestArena *t = *state;
        ShmActor other = other_actor(t);
        uint32_t slab = slab_in(t, SLAB_PARTIAL);

        put(t, slab, SLAB_ACTIVE, other.id);
        expect_clean(t);
        set_state(t, other.id, SHM_RECORD_ROLLED_BACK);
        expect_clean(t);
        shm_actor_deinit(&other);
        expect(t, .other = 1, .text = "its holder's record is not in use");
        put(t, slab, SLAB_PARTIAL, 1);
        expect(t, .other = 1, .text = "it names a holder");
}

static void test_place_against_bitmap(void **state) {
        TestArena *t = *state;
        uint32_t slab = slab_in(t, SLAB_PARTIAL), full = slab_in(t, SLAB_FULL);
        uint64_t tail_mask = shm_slab_class(&t->arena, *word(t, slab))->tail_mask;

        put(t, slab, SLAB_FULL, 0);
        expect(t, .other = 1, .text = "slots are free");
        put(t, slab, SLAB_PARTIAL, 0);
        shm_set_add(
                &t->arena,
                shm_set_partial(&t->arena, slab_word_epoch(*word(t, full)), slab_word_class(*word(t, full))),
                full);
        put(t, full, SLAB_PARTIAL, 0);
        expect(t, .other = 1, .text = "all slots are taken");
        put(t, full, SLAB_FULL, 0);

        for (uint32_t i = 0; i < 64; i++) /* nothing is live in it */
                t->arena.tags[slab].tag[i] &= ~1U;
        word(t, slab)->low = tail_mask;
        expect(t, .other = 1, .text = "no slot is taken");
        put(t, slab, SLAB_DRAINING, 0);
        expect(t, .other = 1, .text = "no slot is taken");
        put(t, slab, SLAB_FREE, 0);
        shm_set_add(&t->arena, SHM_SET_FREE, slab);
        word(t, slab)->low = 4;
        expect(t, .other = 1, .text = "its bitmap is not empty");
}

static void test_beyond_free(void **state) {
        TestArena *t = *state;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&t->arena); slab++) {
                const ShmClass *class = shm_slab_class(&t->arena, *word(t, slab));

                if (slab_word_state(*word(t, slab)) != SLAB_PARTIAL || class->tail_mask == 0)
                        continue;
                word(t, slab)->low &= ~(UINT64_C(1) << 63);
                expect(t, .other = 1, .text = "beyond its class's count");
                return;
        }
        fail();
}

static void test_garbage_word(void **state) {
        TestArena *t = *state;
        uint32_t slab = slab_in(t, SLAB_PARTIAL);
        SlabWord good = *word(t, slab);

        for (uint64_t none = _SLAB_STATE_N; none <= SLAB_STATE_MASK; none++) {
                word(t, slab)->high = (good.high & ~SLAB_STATE_MASK) | none;
                expect(t, .other = 1, .text = "its state is none (invalid");
        }
        word(t, slab)->high = good.high | UINT64_C(0x1f) << SLAB_CLASS_SHIFT;
        expect(t, .other = 1, .text = "its class is none");
        word(t, slab)->high = good.high | UINT64_C(0x3f) << SLAB_EPOCH_SHIFT;
        expect(t, .other = 1, .text = "its epoch is none");

        /* The first number above the last valid one. */
        word(t, slab)->high = (good.high & ~slab_key(0x1f, 0x3f, 0)) | (uint64_t) t->arena.n_classes
                                                                               << SLAB_CLASS_SHIFT;
        expect(t, .other = 1, .text = "its class is none");
        word(t, slab)->high = (good.high & ~slab_key(0x1f, 0x3f, 0)) | (uint64_t) t->arena.n_epochs
                                                                               << SLAB_EPOCH_SHIFT;
        expect(t, .other = 1, .text = "its epoch is none");
}

static void test_scribbled_record(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 1, 2);

        cache->count = UINT32_C(1) << 31;
        memset(cache->slots, 0xff, sizeof(cache->slots));
        expect(t, .other = 1, .text = "class 2 has count 2147483648");
        cache->count = SHM_CACHE_MAX;
        expect(t, .other = 1, .text = "no such slot");
        cache->slots[0] = slot_id(0, 63).value; /* the class has fewer */
        cache->count = 1;
        expect(t, .other = 1, .text = "holds slot 63 of slab 0: no such slot");
        cache->count = 0;
        cache->held = shm_arena_n_slabs_ever(&t->arena) + 1;
        expect(t, .other = 1, .text = "no such slab");
        cache->held = 0;
        t->actor.record->intent_what = UINT64_MAX;
        memset(t->actor.record->notes, 0xff, sizeof(t->actor.record->notes));
        expect_clean(t);
}

/* Every record claims to work on every slab: the work is bounded all the same. */
static void test_scribbled_runs(void **state) {
        TestArena *t = *state;

        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_RUN, 0, 0xfffffff));
        expect_clean(t);
}

static void test_tables(void **state) {
        TestArena *t = *state;
        uint64_t *epoch = &t->arena.header->epochs[3].word, good = *epoch;

        *epoch = (good & ~(UINT64_C(0xff) << 56)) | UINT64_C(4) << 56;
        expect(t, .other = 1, .text = "epoch 3: its state is 4");
        *epoch = 0;
        expect(t, .other = 1, .text = "epoch 3");
        *epoch = good;

        t->arena.header->epoch_current.value = 4;
        expect(t, .other = 1, .text = "epoch 4 is current");
        t->arena.header->epoch_current.value = shm_epoch_number(0, 1);

        set_state(t, t->actor.id, (ShmRecordState) 5);
        expect(t, .other = 1, .text = "record 1: its state is 5");
        set_state(t, t->actor.id, SHM_RECORD_USED);
        expect_clean(t);
        shm_client_remove(&t->arena, 0);
        expect(t, .other = 1, .text = "which is not in the client table");
        t->arena.heads[t->actor.id].word |= UINT64_C(0xffffff) << 32;
        expect(t, .other = 1, .text = "client 16777215");
}

/* The first texts are kept, and all problems counted. */
static void test_many_problems(void **state) {
        TestArena *t = *state;
        ShmCheck c;

        memset(t->arena.lines, 0xff, shm_arena_n_slabs_ever(&t->arena) * sizeof(ShmSlabLine));
        check(&t->arena, &c);
        assert_int_equal(c.problems, shm_arena_n_slabs_ever(&t->arena));
        assert_int_equal(c.n_texts, SHM_CHECK_PROBLEMS_MAX);
        for (size_t i = 0; i < c.n_texts; i++)
                assert_non_null(memchr(c.texts[i], 0, sizeof(c.texts[i])));
}

static uint64_t random64(uint64_t *seed) {
        uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* All or some of the words of a range; small numbers get further into the code than large ones. */
static void scribble(uint64_t *seed, void *from, void *to) {
        uint64_t one_in = UINT64_C(1) << random64(seed) % 12, shift = random64(seed) % 64;

        for (uint64_t *w = from; w < (uint64_t *) to; w++)
                if (random64(seed) % one_in == 0)
                        *w = random64(seed) >> (random64(seed) % 2 ? shift : 0);
}

/* Entries that decode: intents and cached slots in the arena, true or not. */
static void scribble_plausibly(uint64_t *seed, TestArena *t) {
        for (uint32_t record = 0; record < t->arena.n_records; record++) {
                ShmRecord *r = shm_arena_record(&t->arena, record);

                t->arena.heads[record].word = random64(seed) % 6 << 56 | random64(seed) % 4 << 32;
                r->intent_what = random64(seed) % 2
                                         ? shm_intent_other(random64(seed) % 7, random64(seed) % 256,
                                                            (uint32_t) random64(seed) >> 4)
                                         : shm_intent_free((uint32_t) random64(seed) % 8,
                                                           slot_id(random64(seed) % 256, 3));
                for (uint32_t i = 0; i < shm_arena_n_caches(&t->arena); i++) {
                        ShmCache *cache = shm_arena_cache_at(&t->arena, record, i);

                        r->used[i / 64] |= UINT64_C(1) << i % 64;
                        cache->count = (uint32_t) (random64(seed) % 300);
                        for (uint32_t k = 0; k < SHM_CACHE_MAX; k++)
                                cache->slots[k] = (uint32_t) (random64(seed) % (300 * 64));
                }
        }
}

static void look_at_everything(TestArena *t) {
        char name[SHM_ROOT_NAME_SIZE];
        ShmClientInfo info;
        ShmStats stats;
        uint64_t handle;
        ShmCheck c;

        check(&t->arena, &c);
        shm_stats(&t->arena, &stats);
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++)
                (void) shm_root_at(&t->arena, i, name, &handle);
        for (uint32_t i = 0; i < t->arena.n_records; i++) {
                (void) shm_client_get(&t->arena, i, &info);
                (void) shm_client_release_records(&t->arena, i);
        }
        (void) shm_root_get(&t->arena, "x", &handle);
        (void) shm_root_set(&t->arena, "x", 0, 1);
}

static void scribble_all(uint64_t *seed, TestArena *t) {
        ShmHeader *h = t->arena.header;

        scribble(seed, &h->n_slabs_ever, h + 1);
        scribble(seed, t->arena.clients, t->arena.records);
        scribble(seed, t->arena.records, t->arena.sets);
        scribble(seed, t->arena.sets, t->arena.lines);
        scribble(seed, t->arena.lines, t->arena.tags);
        scribble(seed, t->arena.tags, t->arena.slabs);
        if (random64(seed) % 2)
                scribble_plausibly(seed, t);
        if (random64(seed) % 2)
                h->n_slabs_ever.value = random64(seed) % 300;
        h->n_records_ever.value = random64(seed) % 8;
}

static void test_scribbled_arena(void **state) {
        ShmGeometry geometry = test_geometry();

        for (uint64_t i = 0; i < 2000; i++) {
                uint64_t seed = i;
                TestArena t = {};

                geometry.slabs_size = (i % 3 == 0 ? 1 : i % 3 == 1 ? 64 : 256) * SHM_SLAB_SIZE;
                test_arena_init(&t, &geometry);
                scribble_all(&seed, &t);
                look_at_everything(&t);
                test_arena_deinit(&t);
        }
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_ARENA(test_clean),
                ON_ARENA(test_kept),
                ON_ARENA(test_gather_steps),
                ON_ARENA(test_clean_steps),
                cmocka_unit_test(test_clean_new),
                cmocka_unit_test(test_clean_100k_objects),
                ON_ARENA(test_lost),
                ON_ARENA(test_lost_every_slot),
                ON_ARENA(test_doubled_live_and_free),
                ON_ARENA(test_doubled_live_beyond),
                ON_ARENA(test_doubled_two_caches),
                ON_ARENA(test_find),
                ON_ARENA(test_doubled_one_cache_twice),
                ON_ARENA(test_doubled_free_in_cache),
                ON_ARENA(test_doubled_live_in_cache),
                ON_ARENA(test_doubled_wrong_cache),
                ON_ARENA(test_in_flight_live_in_cache),
                ON_ARENA(test_in_flight_claim),
                ON_ARENA(test_in_flight_take),
                ON_ARENA(test_in_flight_free),
                ON_ARENA(test_in_flight_flush),
                ON_ARENA(test_in_flight_dead),
                ON_ARENA(test_in_flight_note),
                ON_ARENA(test_wrong_hint),
                ON_ARENA(test_wrong_hint_far),
                ON_ARENA(test_stale_hint),
                ON_ARENA(test_late_hint),
                ON_ARENA(test_busy_without_owner),
                ON_ARENA(test_held),
                ON_ARENA(test_place_against_bitmap),
                ON_ARENA(test_beyond_free),
                ON_ARENA(test_garbage_word),
                ON_ARENA(test_scribbled_record),
                ON_ARENA(test_scribbled_runs),
                ON_ARENA(test_tables),
                ON_ARENA(test_many_problems),
                cmocka_unit_test(test_scribbled_arena),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
