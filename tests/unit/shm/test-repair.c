/* Each rule of repair, on a planted state: the state that a thread leaves when it dies there. */
#include "shm/maintain/repair.h"

#include <errno.h>
#include <string.h>

#include "shm/cache/cache-drain.h"
#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/map/leaf/leaf.h"
#include "shm/map/trie/trie.h"
#include "tests/util/arena.h"
#include "tests/util/maintain.h"
#include "tests/util/test.h"

/* t->actor is the one that dies; `other` lives. Both cache. */
static ShmActor other;

static int setup(void **state) {
        TestArena *t;
        uint32_t n;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        assert_int_equal(shm_client_add(&t->arena, &(ShmClientInfo){ .pid = 1, .start_time = 1 }), 0);
        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 2), 0);
        assert_int_equal(shm_pages_commit(&t->control, 16, &n), 0);
        t->actor.mode = other.mode = SHM_CACHE_ON;
        return 0;
}

static ShmRepairCounts repair(TestArena *t) {
        ShmRepair r = {};

        (void) shm_record_mark_dead(&t->arena, t->actor.id);
        while (!maintain_repair_step(&t->control, &r, 1))
                ;
        assert_int_equal(t->control.record->intent_what, 0);
        return r.counts;
}

static void expect_clean(TestArena *t) {
        ShmCheck c;

        assert_int_equal(shm_check(&t->arena, &c), 0);
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s\n", c.texts[i]);
        assert_int_equal(c.problems + c.in_flight_slots, 0);
}

/* The record is free, the arena clean, and nothing is left to do. */
static ShmRepairCounts expect_repaired(TestArena *t) {
        ShmRepairCounts counts = repair(t), again;
        ShmRepair r = {};

        assert_int_equal(counts.records, 1);
        assert_int_equal(counts.in_flight, 0);
        assert_int_equal(shm_record_owner(&t->arena, t->actor.id).state, SHM_RECORD_UNUSED);
        expect_clean(t);
        while (!maintain_repair_step(&t->control, &r, 100))
                ;
        again = r.counts;
        assert_int_equal(again.records + again.slots + again.objects + again.slabs + again.in_flight, 0);
        return counts;
}

static ShmCache *cache_of(TestArena *t, uint32_t record) {
        return shm_arena_cache(&t->arena, record, 0, 0);
}

static SlotId top(TestArena *t, uint32_t record) {
        ShmCache *cache = cache_of(t, record);

        assert_true(cache->count > 0);
        return (SlotId){ cache->slots[cache->count - 1] };
}

/* A cache of 64-byte slots. */
static void fill(TestArena *t, ShmActor *actor) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, 64, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(actor, handle), 0);
        assert_true(cache_of(t, actor->id)->count >= 2);
}

static bool taken(TestArena *t, SlotId id) {
        return shm_slab_word(&t->arena, slot_id_slab(id)).low & slot_id_mask(id);
}

static uint32_t tag_of(TestArena *t, SlotId id) {
        return *shm_slot_tag(&t->arena, id);
}

#define ROLLBACK SHM_REPAIR_ROLLBACK
#define COLLECT SHM_REPAIR_COLLECT
#define CHECK SHM_REPAIR_CHECK
#define SETTLE SHM_REPAIR_SETTLE
#define DONE SHM_REPAIR_DONE

static void test_table(void **state) {
        static const int to[_SHM_REPAIR_STATE_N][_SHM_REPAIR_EV_N] = {
                /* NEXT, NONE */
                [ROLLBACK] = { ROLLBACK, COLLECT }, [COLLECT] = { CHECK, DONE }, [CHECK] = { SETTLE, -1 },
                [SETTLE] = { COLLECT, -1 },         [DONE] = { -1, -1 },
        };

        for (unsigned s = 0; s < _SHM_REPAIR_STATE_N; s++)
                for (unsigned event = 0; event < _SHM_REPAIR_EV_N; event++)
                        assert_int_equal(shm_edge_to(shm_repair_edges, s, event), to[s][event]);
}

/* A pass over a dead record, by the smallest steps: the head changes as the rollback ends, and as it is settled. */
static void test_pass(void **state) {
        static const struct {
                ShmRepairState state;
                uint32_t record;
                ShmRecordState head;
        } expected[] = {
                { ROLLBACK, 1, SHM_RECORD_DEAD }, /* it is found */
                { ROLLBACK, 1, SHM_RECORD_DEAD }, /* its one cache */
                { ROLLBACK, 2, SHM_RECORD_ROLLED_BACK }, { COLLECT, 0, SHM_RECORD_ROLLED_BACK },
                { CHECK, 0, SHM_RECORD_ROLLED_BACK }, /* record 0 */
                { SETTLE, 0, SHM_RECORD_ROLLED_BACK },   { COLLECT, 1, SHM_RECORD_ROLLED_BACK },
                { CHECK, 1, SHM_RECORD_ROLLED_BACK },    { SETTLE, 1, SHM_RECORD_ROLLED_BACK },
                { COLLECT, 2, SHM_RECORD_UNUSED },       { DONE, 3, SHM_RECORD_UNUSED },
        };
        TestArena *t = *state;
        ShmRepair r = {};

        fill(t, &t->actor);
        (void) shm_record_mark_dead(&t->arena, t->actor.id);
        assert_int_equal(t->actor.id, 1);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
                ShmRepairState before = r.state;
                bool over;

                do
                        over = maintain_repair_step(&t->control, &r, 1);
                while (before == CHECK && r.state == CHECK); /* as long as the check takes */
                assert_int_equal(r.state, expected[i].state);
                assert_int_equal(r.record, expected[i].record);
                assert_int_equal(shm_record_owner(&t->arena, 1).state, expected[i].head);
                assert_int_equal(over, r.state == DONE);
                assert_int_equal(shm_repair_wanted(&t->arena), expected[i].head != SHM_RECORD_UNUSED);
        }
        expect_clean(t);
        assert_true(maintain_repair_step(&t->control, &r, 1));
        assert_int_equal(r.state, DONE);
}

static void test_caches(void **state) {
        TestArena *t = *state;
        ShmRepairCounts counts;
        uint32_t n;

        fill(t, &t->actor);
        n = cache_of(t, t->actor.id)->count;
        cache_of(t, t->actor.id)->last = SHM_CACHE_LAST_FLUSH;
        counts = expect_repaired(t);
        assert_int_equal(cache_of(t, t->actor.id)->last,
                         SHM_CACHE_LAST_NONE); /* its next owner begins anew */
        assert_int_equal(counts.slots, n);
        assert_int_equal(counts.slabs, 1);
        assert_int_equal(counts.objects, 0);
}

/* Died between the tag and the count. */
static void test_odd_top(void **state) {
        TestArena *t = *state;
        uint32_t tag;
        SlotId id;

        fill(t, &t->actor);
        id = top(t, t->actor.id);
        tag = ++*shm_slot_tag(&t->arena, id);
        assert_int_equal(expect_repaired(t).objects, 1);
        assert_int_equal(tag_of(t, id), tag + 1);
        assert_false(taken(t, id));
}

/* Under FLUSH the top may have gone back, and be another's object by now. */
static void test_odd_top_under_flush(void **state) {
        TestArena *t = *state;
        ShmCache *cache;
        uint64_t handle;
        SlotId id;

        fill(t, &t->actor);
        cache = cache_of(t, t->actor.id);
        id = top(t, t->actor.id);
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, 0 << 9 | 2));
        assert_int_equal(shm_slab_free_slots(&t->actor, slot_id_slab(id), slot_id_mask(id)), 0);
        assert_int_equal(shm_slab_release(&t->actor, slot_id_slab(id)), 0);
        other.mode = SHM_CACHE_OFF;
        do
                assert_int_equal(shm_object_alloc(&other, 64, 0, NULL, &handle, NULL), 0);
        while (shm_handle_slot(handle).value != id.value);
        assert_int_equal(cache->slots[cache->count - 1], id.value);
        assert_int_equal(expect_repaired(t).objects, 0);
        assert_true(shm_object_live(&t->arena, handle));
        assert_true(taken(t, id));
}

/* The same, and the other has it in its cache. */
static void test_owned(void **state) {
        TestArena *t = *state;
        SlotId id;

        fill(t, &t->actor);
        fill(t, &other);
        id = top(t, other.id);
        cache_of(t, t->actor.id)->slots[0] = id.value;
        (void) repair(t);
        assert_true(taken(t, id));
        assert_int_equal(shm_record_owner(&t->arena, t->actor.id).state, SHM_RECORD_UNUSED);
}

/* A slot that is claimed, for an intent to name. */
static SlotId claim(TestArena *t) {
        uint64_t mask;
        SlotId id;

        assert_int_equal(shm_slab_claim(&t->actor, 3, slab_key(0, 0, 1), 1, &mask), 0);
        id = slot_id(3, (uint32_t) __builtin_ctzll(mask));
        shm_actor_intend(&t->actor, 0);
        return id;
}

static void test_claim(void **state) {
        TestArena *t = *state;
        uint64_t mask;

        assert_int_equal(shm_slab_hold(&t->actor, 3, slab_key(0, 0, 1), 9, &mask), 0);
        assert_int_equal(expect_repaired(t).slots, 9);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 3)), SLAB_FREE);
}

/* Slots of the mask that others claimed instead are theirs. */
static void test_claim_lost(void **state) {
        TestArena *t = *state;
        uint64_t handle;

        other.mode = SHM_CACHE_OFF;
        assert_int_equal(shm_object_alloc(&other, 64, 0, NULL, &handle, NULL), 0);
        other.mode = SHM_CACHE_ON;
        fill(t, &other);
        shm_actor_intend_mask(&t->actor, UINT64_MAX);
        shm_actor_intend(&t->actor,
                         shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(shm_handle_slot(handle)), 0));
        assert_int_equal(expect_repaired(t).slots, 0);
        assert_true(shm_object_live(&t->arena, handle));
}

static void test_take(void **state) {
        TestArena *t = *state;
        SlotId id = claim(t);
        uint32_t tag = tag_of(t, id) | 1;

        shm_actor_intend(&t->actor, shm_intent_take(tag, id));
        *shm_slot_tag(&t->arena, id) = tag;
        assert_int_equal(expect_repaired(t).objects, 1);
        assert_false(taken(t, id));
}

static void test_take_before_its_tag(void **state) {
        TestArena *t = *state;
        SlotId id = claim(t);

        shm_actor_intend(&t->actor, shm_intent_take(tag_of(t, id) | 1, id));
        assert_int_equal(expect_repaired(t).slots, 1);
        assert_false(taken(t, id));
}

static void test_freed(void **state) {
        TestArena *t = *state;
        SlotId id = claim(t);

        *shm_slot_tag(&t->arena, id) = 8;
        shm_actor_intend(&t->actor, shm_intent_free(7, id));
        assert_int_equal(expect_repaired(t).slots, 1);
        assert_false(taken(t, id));
}

/* A free that lost its race, or had not begun: the slot is no business of its. */
static void test_freed_by_another(void **state) {
        TestArena *t = *state;
        uint64_t handle;
        SlotId id;

        assert_int_equal(shm_object_alloc(&other, 64, 0, NULL, &handle, NULL), 0);
        id = shm_handle_slot(handle);
        shm_actor_intend(&t->actor, shm_intent_free(shm_handle_tag(t->arena.key, handle), id));
        (void) expect_repaired(t);
        assert_true(shm_object_live(&t->arena, handle));
}

/* Rolled back once: the tag that TAKE names may later be another's, who took the slot after it went back. */
static void test_rolled_back_once(void **state) {
        TestArena *t = *state;
        SlotId id = claim(t), in_flight = claim(t);
        uint64_t handle = shm_handle_make(t->arena.key, id, tag_of(t, id) | 1);
        ShmRepairCounts counts;

        shm_actor_intend(&t->actor, shm_intent_take(tag_of(t, id) | 1, id));
        cache_of(t, t->actor.id)->slots[0] = in_flight.value;
        test_cache(t, t->actor.id, 0, 0)->count = 1;
        shm_actor_intend(&other, shm_intent_take(tag_of(t, in_flight) | 1, in_flight));
        counts = repair(t);
        assert_int_equal(counts.slots, 1);
        assert_int_equal(counts.in_flight, 1);
        assert_int_equal(counts.records, 0);
        assert_int_equal(shm_record_owner(&t->arena, t->actor.id).state, SHM_RECORD_ROLLED_BACK);
        /* Another takes it, and its tag is the very one. */
        t->arena.lines[3].word.low |= slot_id_mask(id);
        *shm_slot_tag(&t->arena, id) = shm_handle_tag(t->arena.key, handle);
        counts = repair(t);
        assert_int_equal(counts.objects + counts.slots + counts.records, 0);
        assert_true(shm_object_live(&t->arena, handle));
        shm_actor_intend(&other, 0);
        assert_int_equal(repair(t).records, 1);
        assert_true(shm_object_live(&t->arena, handle));
        assert_false(taken(t, in_flight));
}

static void expect_in_flight(TestArena *t, ShmActor *by, uint64_t what) {
        ShmRepairCounts counts;

        shm_actor_intend(by, what);
        counts = repair(t);
        assert_int_equal(counts.in_flight, 1);
        assert_int_equal(counts.records, 0);
        assert_int_equal(shm_record_owner(&t->arena, t->actor.id).state, SHM_RECORD_ROLLED_BACK);
        assert_int_equal(cache_of(t, t->actor.id)->count, 1);
        shm_actor_intend(by, 0);
        (void) expect_repaired(t);
}

static void test_in_flight_claim(void **state) {
        TestArena *t = *state;
        SlotId id;

        fill(t, &t->actor);
        id = top(t, t->actor.id);
        shm_actor_intend_mask(&other, slot_id_mask(id));
        expect_in_flight(t, &other, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
        assert_false(taken(t, id));
}

static void test_in_flight_take(void **state) {
        TestArena *t = *state;

        fill(t, &t->actor);
        expect_in_flight(t, &other, shm_intent_take(1, top(t, t->actor.id)));
}

static void test_in_flight_free(void **state) {
        TestArena *t = *state;
        SlotId id;

        fill(t, &t->actor);
        id = top(t, t->actor.id);
        expect_in_flight(t, &other, shm_intent_free(tag_of(t, id) - 1, id));
}

/* Ids of a live cache that is being flushed are neither held nor given back yet. */
static void test_in_flight_flush(void **state) {
        TestArena *t = *state;
        ShmCache *cache;
        SlotId id;

        fill(t, &t->actor);
        id = top(t, t->actor.id);
        cache = test_cache(t, other.id, 0, 0);
        cache->slots[0] = id.value;
        cache->count = 1;
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_FLUSH, other.id, 0 << 9 | 1));
        assert_int_equal(repair(t).in_flight, 1);
        assert_true(taken(t, id));
        cache->count = 0;
        shm_actor_intend(&other, 0);
        (void) expect_repaired(t);
}

static void test_notes(void **state) {
        TestArena *t = *state;
        const ShmPending pending = {}, named = { .root = SHM_NOTE_NAMED_ROOT };
        uint64_t lost, published, kept, unkept;

        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &lost, NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &published, NULL), 0);
        assert_int_equal(shm_object_publish(&t->actor, published), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &named, &kept, NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &named, &unkept, NULL), 0);
        assert_int_equal(shm_root_set(&t->arena, "kept", 0, kept), 0);
        assert_int_equal(expect_repaired(t).objects, 2);
        assert_false(shm_object_live(&t->arena, lost));
        assert_true(shm_object_live(&t->arena, published));
        assert_true(shm_object_live(&t->arena, kept));
        assert_false(shm_object_live(&t->arena, unkept));
        for (int i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(t->actor.record->notes[i].handle, 0);
}

/* Repair waits for guards once, however many threads named an object, and after that the step ends. */
static void test_steps_end_with_a_wait(void **state) {
        TestArena *t = *state;
        const ShmPending pending = {};
        ShmRepair r = {};
        uint64_t handle;
        unsigned n = 1;

        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &handle, NULL), 0);
        assert_int_equal(shm_object_alloc(&other, 64, 0, &pending, &handle, NULL), 0);
        (void) shm_record_mark_dead(&t->arena, t->actor.id);
        (void) shm_record_mark_dead(&t->arena, other.id);
        while (!maintain_repair_step(&t->control, &r, UINT32_MAX))
                n++;
        assert_int_equal(r.counts.objects, 2);
        assert_int_equal(n, 2);
}

/* A node of an index whose words look like the head of a chain, as those of one in some thousands do. */
static void test_noted_node(void **state) {
        TestArena *t = *state;
        ShmPending pending = { .hash = 77 };
        uint64_t node, other_object;
        void *object;

        assert_int_equal(shm_trie_create(&other, 0, &pending.root), 0);
        assert_int_equal(shm_object_publish(&other, pending.root), 0);
        assert_int_equal(shm_object_alloc(&other, 64, 0, NULL, &other_object, NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &node, &object), 0);
        *(ShmMapLeaf *) object = (ShmMapLeaf){ .hash = 5, .value_size = 8, .flags = SHM_LEAF_CHAINED };
        ((uint64_t *) object)[4] = other_object ^ shm_leaf_seal(node);
        (void) expect_repaired(t);
        assert_false(shm_object_live(&t->arena, node));
        assert_true(shm_object_live(&t->arena, other_object));
}

static void test_run(void **state) {
        TestArena *t = *state;
        SlabWord new;

        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_RUN, 4, 3));
        for (uint32_t slab = 4; slab < 6; slab++) {
                assert_int_equal(slab_word_begin(shm_slab_word(&t->arena, slab), t->actor.id, &new), 0);
                t->arena.lines[slab].word = new;
        }
        assert_int_equal(expect_repaired(t).slabs, 2);
        for (uint32_t slab = 4; slab < 6; slab++) {
                assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_UNCOMMITTED);
                assert_true(shm_set_has(&t->arena, SHM_SET_UNCOMMITTED, slab));
        }
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 6)), SLAB_FREE);
}

/* Somebody else's are his. */
static void test_run_of_another(void **state) {
        TestArena *t = *state;
        SlabWord new;

        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_RUN, 4, UINT32_MAX >> 4));
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_RUN, 4, 1));
        assert_int_equal(slab_word_begin(shm_slab_word(&t->arena, 4), other.id, &new), 0);
        t->arena.lines[4].word = new;
        assert_int_equal(repair(t).slabs, 0);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 4)), SLAB_BUSY);
}

/* A remover died between clear and look, at every level of every set. */
static void repair_hints(TestArena *t, ShmIntentKind kind) {
        uint64_t handle;

        other.mode = SHM_CACHE_OFF;
        assert_int_equal(shm_object_alloc(&other, 64, 1, NULL, &handle, NULL), 0);
        for (uint32_t set = 0; set < shm_set_partial(&t->arena, t->arena.n_epochs, 0); set++)
                for (uint32_t level = 0; level + 1 < t->arena.shape.n_levels; level++)
                        t->arena.sets[set * t->arena.shape.stride + t->arena.shape.level_off[level]] &= ~1ULL;
        shm_actor_intend(&t->actor, shm_intent_other(kind, 2, 1));
        (void) expect_repaired(t);
}

static void test_hints(void **state) {
        repair_hints(*state, SHM_INTENT_SLAB);
}

static void test_hints_run(void **state) {
        repair_hints(*state, SHM_INTENT_RUN);
}

/* Its leaves, too, of each slab of the run. */
static void test_hints_run_leaves(void **state) {
        TestArena *t = *state;
        uint64_t *leaf = t->arena.sets + SHM_SET_FREE * t->arena.shape.stride +
                         t->arena.shape.level_off[t->arena.shape.n_levels - 1];

        for (uint32_t slab = 4; slab < 7; slab++)
                assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_FREE);
        *leaf &= ~(UINT64_C(7) << 4);
        shm_actor_intend(&t->actor, shm_intent_other(SHM_INTENT_RUN, 4, 3));
        (void) expect_repaired(t);
        assert_int_equal(*leaf >> 4 & 7, 7);
}

/* A slab that its cache says to hold, but another holds by now, or nobody. */
static void test_held_of_another(void **state) {
        TestArena *t = *state;
        uint32_t held;

        fill(t, &other);
        held = cache_of(t, other.id)->held;
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, held - 1)), SLAB_ACTIVE);
        test_cache(t, t->actor.id, 0, 0)->held = held;
        test_cache(t, t->actor.id, 0, 1)->held = 5;
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 4)), SLAB_FREE);
        assert_int_equal(expect_repaired(t).slabs, 0);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, held - 1)), SLAB_ACTIVE);
        assert_int_equal(slab_word_holder(shm_slab_word(&t->arena, held - 1)), other.id);
}

/* Repair takes no slot from a word that decodes to none. */
static void test_taken_garbage(void **state) {
        TestArena *t = *state;
        SlabWord good = { .low = 1, .high = SLAB_PARTIAL | slab_key(0, 0, 1) }, class = good, epoch = good;

        class.high = SLAB_PARTIAL | slab_key(t->arena.n_classes, 0, 1);
        epoch.high = SLAB_PARTIAL | slab_key(0, t->arena.n_epochs, 1);
        assert_int_equal(shm_slab_view_taken(&t->arena, good), 1);
        assert_int_equal(shm_slab_view_taken(&t->arena, class), 0);
        assert_int_equal(shm_slab_view_taken(&t->arena, epoch), 0);
}

static void test_frozen(void **state) {
        TestArena *t = *state;

        fill(t, &t->actor);
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        (void) expect_repaired(t);
        assert_false(t->actor.record->attention & SHM_ATTENTION_FREEZE);
}

/* Control died flushing a frozen owner's cache: half went back, and of that half is another's. */
static void test_control_flush(void **state) {
        TestArena *t = *state;
        ShmRepairCounts counts;
        uint64_t mask = 0;
        ShmCache *cache;
        uint32_t n;

        fill(t, &t->actor);
        cache = cache_of(t, t->actor.id);
        n = cache->count;
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, 0 << 9 | (n - 1)));
        for (uint32_t i = 1; i <= n / 2; i++)
                mask |= slot_id_mask((SlotId){ cache->slots[n - i] });
        assert_int_equal(shm_slab_free_slots(&t->control, slot_id_slab(top(t, t->actor.id)), mask), 0);
        maintain_repair_control(&t->control, &counts);
        assert_int_equal(counts.slots, n - 1 - n / 2);
        assert_int_equal(cache->count, 1);
        assert_true(!shm_freeze_is_over(&t->arena));
        expect_clean(t);
        maintain_repair_control(&t->control, &counts);
        assert_int_equal(counts.slots, 0);
}

static ShmRepairCounts pass(TestArena *t) {
        ShmRepair r = {};

        while (!maintain_repair_step(&t->control, &r, 1))
                ;
        return r.counts;
}

/*
 * The same, while another thread's intent names a slot: that may be its own by now, or not yet given
 * back. It is kept, by the next control too, until that thread has gone on.
 */
static void test_control_flush_in_flight(void **state) {
        TestArena *t = *state;
        ShmRepairCounts counts;
        uint32_t n;
        SlotId id;

        fill(t, &t->actor);
        n = cache_of(t, t->actor.id)->count;
        id = top(t, t->actor.id);
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend_mask(&other, slot_id_mask(id));
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
        for (int death = 0; death < 2; death++) {
                shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, n));
                shm_cache_set_count(cache_of(t, t->actor.id), n);
                maintain_repair_control(&t->control, &counts);
                assert_int_equal(counts.slots, death == 0 ? n - 1 : 0);
                assert_int_equal(counts.in_flight, 1);
        }
        assert_true(shm_repair_kept(&t->arena));
        assert_int_equal(pass(t).in_flight, 1);
        assert_true(taken(t, id));
        shm_actor_intend(&other, 0);
        counts = pass(t);
        assert_int_equal(counts.slots, 1);
        assert_int_equal(counts.in_flight, 0);
        assert_false(taken(t, id));
        assert_false(shm_repair_kept(&t->arena));
        expect_clean(t);
}

/* Repair keeps only those slots of a slab that a record names. */
static void test_control_flush_in_flight_some(void **state) {
        TestArena *t = *state;
        ShmCache *cache = cache_of(t, t->actor.id), *kept = cache_of(t, 0);
        ShmRepairCounts counts;
        uint32_t slab;

        cache->capacity = 16; /* a refill takes eight slots */
        fill(t, &t->actor);
        slab = slot_id_slab(top(t, t->actor.id));
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend_mask(&other, UINT64_C(0x28));
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
        for (uint32_t i = 0; i < 8; i++)
                cache->slots[i] = slot_id(slab, i).value;
        shm_cache_set_count(cache, 8);
        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, 8));
        maintain_repair_control(&t->control, &counts);
        assert_int_equal(counts.in_flight, 2);
        assert_int_equal(kept->count, 2);
        assert_int_equal(kept->slots[0], slot_id(slab, 3).value);
        assert_int_equal(kept->slots[1], slot_id(slab, 5).value);
}

/* The same with all of them. */
static void test_control_flush_in_flight_all(void **state) {
        TestArena *t = *state;
        ShmRepairCounts counts;
        uint32_t n, i;

        fill(t, &t->actor);
        n = cache_of(t, t->actor.id)->count;
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend_mask(&other, UINT64_MAX);
        shm_actor_intend(&other, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(top(t, t->actor.id)), 0));
        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, n - 1));
        maintain_repair_control(&t->control, &counts);
        assert_int_equal(counts.in_flight, n - 1);
        assert_int_equal(cache_of(t, t->actor.id)->count, 1);
        assert_int_equal(cache_of(t, 0)->count, n - 1);
        for (i = 0; i < n - 1; i++)
                assert_int_not_equal(cache_of(t, 0)->slots[i], cache_of(t, t->actor.id)->slots[0]);
        shm_actor_intend(&other, 0);
        assert_int_equal(pass(t).slots, n - 1);
        expect_clean(t);
}

static void test_control_run(void **state) {
        TestArena *t = *state;
        ShmRepairCounts counts;
        SlabWord new;

        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_RUN, 0, 64));
        assert_int_equal(slab_word_begin(shm_slab_word(&t->arena, 4), 0, &new), 0);
        t->arena.lines[4].word = new;
        maintain_repair_control(&t->control, &counts);
        assert_int_equal(counts.slabs, 1);
        expect_clean(t);
}

/* Claims that keep coming make it take the slab into its hand; a death there leaves it to the next maintainer. */
static void test_control_seized(void **state) {
        static ShmReach reach;
        TestArena *t = *state;
        uint64_t handle;
        uint32_t budget, slab;
        SlotId id;

        t->actor.mode = SHM_CACHE_OFF;
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, NULL, &handle, NULL), 0);
        id = shm_handle_slot(handle);
        slab = slot_id_slab(id);
        ++*shm_slot_tag(&t->arena, id); /* nobody's */
        shm_reach_init(&reach, &t->control);
        assert_true(shm_reach_add_slot(&reach, id));
        for (unsigned i = 0; !reach.pinned; i++) {
                assert_true(i < 1000);
                budget = 1;
                assert_false(shm_reach_step(&reach, &budget));
                if (!reach.pinned)
                        handle = test_alloc(t, 64, 0);
        }
        assert_int_equal(slot_id_slab(shm_handle_slot(handle)), slab);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_ACTIVE);
        assert_int_equal(slab_word_holder(shm_slab_word(&t->arena, slab)), 0);
        assert_true(shm_repair_kept(&t->arena));
        assert_true(taken(t, id));
        assert_int_equal(pass(t).slabs, 1);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_PARTIAL);
        assert_false(shm_repair_kept(&t->arena));
        /* The slots in question still are: only the check of them was forgotten. */
        shm_reach_init(&reach, &t->control);
        assert_true(shm_reach_add_slot(&reach, id));
        assert_int_equal(shm_reach_run(&reach), 1);
        assert_false(taken(t, id));
        expect_clean(t);
}

/* A slab that was FREE as its slots were added is another class's, and in a cache, before the check begins. */
static void test_reach_of_another_class(void **state) {
        static ShmReach reach;
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, other.id, 1, 1);
        uint64_t mask;

        shm_reach_init(&reach, &t->control);
        assert_true(shm_reach_add(&reach, 0, UINT64_MAX));
        assert_int_equal(shm_slab_claim(&other, 0, slab_key(1, 1, 1), 1, &mask), 0);
        shm_actor_intend(&other, 0);
        cache->slots[cache->count++] = slot_id(0, (uint32_t) __builtin_ctzll(mask)).value;
        assert_int_equal(shm_reach_run(&reach), 0);
        expect_clean(t);
}

static void expect_check_repairs(TestArena *t, uint64_t n) {
        ShmCheck c;

        assert_int_equal(shm_check_repair(&t->control, &c), 0);
        assert_int_equal(c.repaired, n);
        assert_int_equal(c.problems + c.lost_slots + c.wrong_hints, 0);
        expect_clean(t);
        assert_int_equal(shm_check_repair(&t->control, &c), 0);
        assert_int_equal(c.repaired, 0);
}

/* Slots that no record names any more, for any reason. */
static void test_check_repair(void **state) {
        TestArena *t = *state;
        uint64_t handle;
        SlotId id;

        fill(t, &other);
        other.mode = SHM_CACHE_OFF;
        assert_int_equal(shm_object_alloc(&other, 96, 1, NULL, &handle, NULL), 0);
        id = shm_handle_slot(handle);
        t->arena.lines[slot_id_slab(id)].word.low |= slot_id_mask(id) << 1 | slot_id_mask(id) << 2;
        t->arena.sets[SHM_SET_FREE * t->arena.shape.stride] = 0;
        expect_check_repairs(t, 2 + 1); /* the root's bit is that of all */
        assert_true(shm_object_live(&t->arena, handle));
}

static void test_check_repair_holder(void **state) {
        TestArena *t = *state;
        uint32_t held;

        fill(t, &t->actor);
        held = cache_of(t, t->actor.id)->held;
        cache_of(t, t->actor.id)->held = 0;
        shm_cache_drain_record(&t->actor, t->actor.id, UINT64_MAX);
        assert_true(shm_record_set_unused(&t->arena, t->actor.id));
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, held - 1)), SLAB_ACTIVE);
        expect_check_repairs(t, 1);
}

/* Slots of more slabs than one check has room for. */
static void test_many_slabs(void **state) {
        enum { N_CACHES = 6 };
        static TestArena t;
        ShmGeometry geometry = test_geometry();
        uint64_t mask;
        uint32_t n;

        (void) state;
        geometry.slabs_size = 2048 * SHM_SLAB_SIZE;
        test_arena_init(&t, &geometry);
        for (uint32_t total = 0; total < N_CACHES * SHM_CACHE_MAX; total += n)
                assert_int_equal(shm_pages_commit(&t.control, 64, &n), 0);
        for (uint32_t i = 0; i < N_CACHES * SHM_CACHE_MAX; i++) {
                uint32_t epoch = i / SHM_CACHE_MAX % 4, class = i / SHM_CACHE_MAX / 4;
                ShmCache *cache = test_cache(&t, t.actor.id, epoch, class);

                assert_int_equal(shm_slab_claim(&t.actor, i, slab_key(class, epoch, 1), 1, &mask), 0);
                shm_actor_intend(&t.actor, 0);
                cache->slots[cache->count++] = slot_id(i, (uint32_t) __builtin_ctzll(mask)).value;
        }
        (void) shm_record_mark_dead(&t.arena, t.actor.id);
        assert_int_equal(maintain_repair(&t.control).slots, N_CACHES * SHM_CACHE_MAX);
        for (uint32_t i = 0; i < N_CACHES * SHM_CACHE_MAX; i++)
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, i)), SLAB_FREE);
        test_arena_deinit(&t);
}

/* Everything that is read may be anything: it ends, and touches nothing outside. */
static void test_hostile(void **state) {
        TestArena *t = *state;
        uint64_t random = 1;

        for (int round = 0; round < 200; round++) {
                uint64_t *words = (uint64_t *) t->actor.record;
                ShmRepair r = {};

                for (size_t i = 0; i < t->arena.record_stride / 8; i++) {
                        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
                        words[i] = round % 2 ? random : random >> 40 & UINT64_C(0x3ff000003ff);
                }
                t->arena.heads[t->actor.id].word = (uint64_t) SHM_RECORD_DEAD << 56;
                while (!maintain_repair_step(&t->control, &r, 100))
                        ;
                t->control.record->intent_what = words[3];
                maintain_repair_control(&t->control, &r.counts);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(table),
                TEST(pass),
                TEST(caches),
                TEST(odd_top),
                TEST(odd_top_under_flush),
                TEST(owned),
                TEST(claim),
                TEST(claim_lost),
                TEST(take),
                TEST(take_before_its_tag),
                TEST(freed),
                TEST(freed_by_another),
                TEST(rolled_back_once),
                TEST(in_flight_claim),
                TEST(in_flight_take),
                TEST(in_flight_free),
                TEST(in_flight_flush),
                TEST(notes),
                TEST(steps_end_with_a_wait),
                TEST(noted_node),
                TEST(run),
                TEST(run_of_another),
                TEST(hints),
                TEST(hints_run),
                TEST(hints_run_leaves),
                TEST(held_of_another),
                TEST(taken_garbage),
                TEST(frozen),
                TEST(control_flush),
                TEST(control_flush_in_flight),
                TEST(control_flush_in_flight_some),
                TEST(control_flush_in_flight_all),
                TEST(control_run),
                TEST(control_seized),
                TEST(reach_of_another_class),
                TEST(check_repair),
                TEST(check_repair_holder),
                cmocka_unit_test(test_many_slabs),
                TEST(hostile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
