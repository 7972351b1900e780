/*
 * Repair
 *
 * Purpose: ends for dead threads what they were in the middle of, and gives back what they held.
 *
 * Invariants
 *   1. All DEAD records are swept before any is judged (shm/maintain/sweep.h).
 *   2. What a record names stays in it until it is judged. Judging twice does no harm: a slot that
 *      went back is found free, or somebody's.
 *   3. A record is UNUSED last, when it is empty and thawed.
 *
 * Who may do what: control work, on records whose owners are dead, and at first on its own.
 *
 * Crash: of control in here: the record is DEAD or SWEPT as before, control's intent says which slab's
 *   hints may be missing, or which it has seized, and the next control begins anew.
 */
#include "shm/maintain/repair.h"

#include "shm/cache-drain.h"
#include "shm/cache.h"
#include "shm/maintain/judge.h"
#include "shm/maintain/sweep.h"
#include "shm/pages.h"
#include "shm/set.h"
#include "shm/slab.h"

static bool tag_is(const ShmArena *arena, SlotId id, uint32_t tag) {
        if (slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return false;
        /* ORDER: acq, pairs with shm_object_free_uncached(); who made it another is done with that. */
        return shm_load_acq(shm_slot_tag(arena, id)) == tag;
}

/* Hints */

void shm_repair_hints(const ShmArena *arena, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);

        shm_set_mend(arena, SHM_SET_FREE, slab);
        shm_set_mend(arena, SHM_SET_UNCOMMITTED, slab);
        if (slab_word_epoch(w) >= arena->n_epochs || slab_word_class(w) >= arena->n_classes)
                return;
        shm_set_mend(arena, shm_set_of_epoch(arena, slab_word_epoch(w)), slab);
        shm_set_mend(arena, shm_set_partial(arena, slab_word_epoch(w), slab_word_class(w)), slab);
}

/* Who removed a bit died, and its intent names the slab but not the set. */
static void mend_all(const ShmArena *arena, uint32_t slab) {
        uint32_t n_sets = shm_set_partial(arena, arena->n_epochs, 0);

        for (uint32_t set = 0; set < n_sets; set++)
                shm_set_mend(arena, set, slab);
}

static void mend_intent(const ShmArena *arena, ShmIntent intent) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(arena), slab = slot_id_slab(intent.id), end;

        if (intent.kind == SHM_INTENT_NONE || intent.kind == SHM_INTENT_FLUSH || slab >= n_slabs)
                return;
        if (intent.kind != SHM_INTENT_RUN) {
                shm_repair_hints(arena, slab);
                if (intent.kind == SHM_INTENT_SLAB)
                        mend_all(arena, slab);
                return;
        }
        end = intent.arg < n_slabs - slab ? slab + intent.arg : n_slabs;
        for (uint32_t i = slab; i < end; i++)
                shm_repair_hints(arena, i);
        for (; slab < end; slab = (slab / 64 + 1) * 64)
                mend_all(arena, slab);
}

/* Judging */

static void judge(ShmActor *control, ShmJudge *j, ShmRepairCounts *counts) {
        shm_judge_decide(j);
        counts->slots += shm_judge_give_back(j, control);
        for (uint32_t i = 0; i < j->n; i++) {
                counts->unsettled += shm_judge_is_unsettled(&j->suspects[i]);
                shm_repair_hints(control->arena, slot_id_slab(j->suspects[i].id));
        }
}

/* What is unsettled stays, at the bottom. Ids may move: nobody reads what a SWEPT record holds. */
static void keep_unsettled(const ShmJudge *j, ShmCache *cache) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < j->n; i++)
                if (shm_judge_is_unsettled(&j->suspects[i]))
                        /* ORDER: rlx; ordered by the count. */
                        shm_store_rlx(&cache->slots[n++], j->suspects[i].id.value);
        shm_cache_set_count(cache, n);
}

static uint64_t release(ShmActor *control, uint32_t record, uint32_t slab) {
        SlabWord w;

        if (slab >= shm_arena_n_slabs_ever(control->arena))
                return 0;
        w = shm_slab_word(control->arena, slab);
        if (slab_word_place(w) != SLAB_HELD || slab_word_holder(w) != record)
                return 0;
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        (void) shm_slab_release(control, slab);
        shm_actor_intend(control, 0);
        return 1;
}

static void repair_cache(ShmActor *control, ShmRepair *repair, const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk), held;
        uint64_t before = repair->counts.unsettled;
        ShmJudge j;

        if (n > 0) {
                shm_judge_init(&j, control->arena, false);
                for (uint32_t i = 0; i < n; i++)
                        shm_judge_add(&j, shm_cache_walk_slot(walk, i));
                judge(control, &j, &repair->counts);
                keep_unsettled(&j, walk->cache);
        }
        repair->record_unsettled += repair->counts.unsettled - before;
        held = shm_load_rlx(&walk->cache->held); /* ORDER: rlx; the owner is dead. */
        repair->counts.slabs += release(control, repair->position, held - 1);
        shm_store_rlx(&walk->cache->held, 0); /* ORDER: rlx; before the record is free. */
        walk->cache->last = SHM_CACHE_LAST_NONE;
}

/* What the intent and the notes of a dead thread make suspect. */
static void add_named(const ShmArena *arena, ShmJudge *j, const ShmRecord *r, ShmIntent intent) {
        if (intent.kind == SHM_INTENT_CLAIM)
                for (uint64_t rest = intent.mask; rest != 0; rest &= rest - 1)
                        shm_judge_add(j, slot_id(slot_id_slab(intent.id), (uint32_t) __builtin_ctzll(rest)));
        if (intent.kind == SHM_INTENT_TAKE ||
            (intent.kind == SHM_INTENT_FREE && tag_is(arena, intent.id, intent.tag + 1)))
                shm_judge_add(j, intent.id);
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t handle = shm_record_note(r, i);

                if (handle != 0 &&
                    tag_is(arena, shm_handle_slot(handle), shm_handle_tag(arena->key, handle) + 1))
                        shm_judge_add(j, shm_handle_slot(handle));
        }
}

static void repair_named(ShmActor *control, uint32_t record, ShmRepairCounts *counts) {
        ShmIntent intent = shm_record_intent(control->arena, record);
        ShmJudge j;

        if (intent.kind == SHM_INTENT_RUN)
                counts->slabs += shm_pages_undo(control, record, slot_id_slab(intent.id), intent.arg);
        shm_judge_init(&j, control->arena, false);
        add_named(control->arena, &j, shm_arena_record(control->arena, record), intent);
        judge(control, &j, counts);
        if (intent.kind == SHM_INTENT_CLAIM || intent.kind == SHM_INTENT_SLAB)
                counts->slabs += release(control, record, slot_id_slab(intent.id));
        mend_intent(control->arena, intent);
}

static void forget_notes(ShmRecord *r) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                if (shm_record_note(r, i) != 0)
                        shm_store_rlx(&r->notes[i].handle, 0); /* ORDER: rlx; before the record is free. */
}

static void free_record(ShmActor *control, ShmRepair *repair) {
        ShmRecord *r = shm_arena_record(control->arena, repair->position);
        uint64_t attention = shm_load_rlx(&r->attention); /* ORDER: rlx; control's alone. */

        forget_notes(r);
        shm_store_rlx(&r->intent_what, 0); /* ORDER: rlx; before the record is free. */
        shm_store_rlx(&r->attention, attention & ~SHM_ATTENTION_FREEZE); /* ORDER: rlx; the same. */
        if (shm_record_set_unused(control->arena, repair->position))
                repair->counts.records++;
}

/* The pass */

/* Record 0 is as if SWEPT: it holds what an earlier control died over. */
static bool is_in(const ShmArena *arena, uint32_t record, ShmRecordState state) {
        if (record == 0)
                return state == SHM_RECORD_SWEPT;
        return shm_record_owner(arena, record).state == state;
}

static bool find_record(const ShmArena *arena, uint32_t *position, ShmRecordState state) {
        for (; *position < shm_arena_n_records_ever(arena); (*position)++)
                if (is_in(arena, *position, state))
                        return true;
        return false;
}

static void sweep_next(ShmActor *control, ShmRepair *repair) {
        if (!find_record(control->arena, &repair->position, SHM_RECORD_DEAD)) {
                repair->judging = true;
                repair->position = 0;
                return;
        }
        repair->counts.objects += shm_sweep_record(control->arena, repair->position);
        shm_record_set_swept(control->arena, repair->position++);
}

/* False: no record is left. */
static bool judge_next(ShmActor *control, ShmRepair *repair) {
        uint64_t before;

        if (!repair->begun && !find_record(control->arena, &repair->position, SHM_RECORD_SWEPT))
                return false;
        if (!repair->begun) {
                before = repair->counts.unsettled;
                if (repair->position > 0)
                        repair_named(control, repair->position, &repair->counts);
                repair->record_unsettled = repair->counts.unsettled - before;
                repair->walk = (ShmCacheWalk){};
                repair->begun = true;
        } else if (shm_cache_walk_next(&repair->walk, control->arena, repair->position)) {
                repair_cache(control, repair, &repair->walk);
        } else {
                if (repair->position > 0 && repair->record_unsettled == 0)
                        free_record(control, repair);
                repair->position++;
                repair->begun = false;
        }
        return true;
}

bool shm_repair_step(ShmActor *control, ShmRepair *repair, uint32_t n) {
        for (; n > 0; n--) {
                if (!repair->judging)
                        sweep_next(control, repair);
                else if (!judge_next(control, repair))
                        return true;
        }
        return false;
}

/* Control's own */

static bool holds(const ShmCache *cache, uint32_t n, SlotId id) {
        for (uint32_t i = 0; i < n; i++)
                /* ORDER: rlx; control's alone. */
                if (shm_load_rlx(&cache->slots[i]) == id.value)
                        return true;
        return false;
}

/*
 * What is unsettled control keeps, in a cache of its own record, until a pass has settled it. Twice
 * after a death in here, which is once. Where there is no room more daemons than a cache has slots
 * died: the check finds it.
 */
static void keep(ShmActor *control, const ShmJudge *j) {
        for (uint32_t i = 0; i < j->n; i++) {
                const ShmSuspect *s = &j->suspects[i];
                uint32_t index, n;
                ShmCacheWalk walk;

                if (!shm_judge_is_unsettled(s))
                        continue;
                index = slab_word_epoch(s->word) * control->arena->n_classes + slab_word_class(s->word);
                walk = (ShmCacheWalk){ .cache = shm_arena_cache(control->arena, 0, 0, index) };
                n = shm_cache_walk_count(&walk);
                if (n == SHM_CACHE_MAX || holds(walk.cache, n, s->id))
                        continue;
                shm_record_use_cache(control->record, index);
                shm_store_rlx(&walk.cache->slots[n], s->id.value); /* ORDER: rlx; ordered by the count. */
                shm_cache_set_count(walk.cache, n + 1);
        }
}

/* The owner is frozen, or dead: the cache has stood still since. */
static void end_flush(ShmActor *control, ShmIntent intent, ShmRepairCounts *counts) {
        uint32_t record = slot_id_slab(intent.id), index = intent.arg >> 9, k = intent.arg & 0x1ff, n;
        const ShmArena *arena = control->arena;
        ShmCacheWalk walk;
        ShmJudge j;

        if (record >= shm_arena_n_records_ever(arena) || index >= arena->n_epochs * arena->n_classes ||
            /* ORDER: rlx; control's alone. */
            !(shm_load_rlx(&shm_arena_record(arena, record)->attention) & SHM_ATTENTION_FREEZE))
                return;
        walk = (ShmCacheWalk){ .cache = shm_arena_cache(arena, record, 0, index), .index = index };
        n = shm_cache_walk_count(&walk);
        k = k < n ? k : n;
        shm_judge_init(&j, arena, false);
        j.flush = intent;
        for (uint32_t i = n - k; i < n; i++)
                shm_judge_add(&j, shm_cache_walk_slot(&walk, i));
        shm_judge_decide(&j);
        /* Under the intent that stands, which names them all. */
        for (uint32_t i = 0; i < j.n; i++) {
                SlotId id = j.suspects[i].id;

                if (j.suspects[i].verdict == SHM_VERDICT_LOST &&
                    shm_slab_give_back(control, slot_id_slab(id), slot_id_mask(id)) == 0)
                        counts->slots++;
                counts->unsettled += shm_judge_is_unsettled(&j.suspects[i]);
                shm_repair_hints(arena, slot_id_slab(id));
        }
        keep(control, &j);
        shm_cache_set_count(walk.cache, n - k);
}

void shm_repair_control(ShmActor *control, ShmRepairCounts *ret) {
        ShmIntent intent = shm_record_intent(control->arena, 0);
        ShmRepairCounts counts = {};
        ShmJudge j;

        if (intent.kind == SHM_INTENT_FLUSH) {
                end_flush(control, intent, &counts);
        } else if (intent.kind == SHM_INTENT_RUN) {
                /* Its own run: the intent stands as it is while it is undone. */
                counts.slabs += shm_pages_undo(control, 0, slot_id_slab(intent.id), intent.arg);
        } else if (intent.kind != SHM_INTENT_NONE) {
                if (intent.kind == SHM_INTENT_TAKE)
                        counts.objects += shm_sweep_object(control->arena, intent.id, intent.tag);
                shm_judge_init(&j, control->arena, false);
                add_named(control->arena, &j, control->record, intent);
                judge(control, &j, &counts);
                keep(control, &j);
                counts.slabs += release(control, 0, slot_id_slab(intent.id));
        }
        mend_intent(control->arena, intent);
        shm_actor_intend(control, 0);
        *ret = counts;
}

bool shm_repair_kept(const ShmArena *arena) {
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, 0);)
                if (shm_cache_walk_count(&walk) > 0)
                        return true;
        return false;
}

bool shm_repair_wanted(const ShmArena *arena) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordState state = shm_record_owner(arena, i).state;

                if (state == SHM_RECORD_DEAD || state == SHM_RECORD_SWEPT)
                        return true;
        }
        return shm_repair_kept(arena);
}

bool shm_repair_frozen(const ShmArena *arena) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                /* ORDER: rlx; control's alone. */
                if (shm_load_rlx(&shm_arena_record(arena, i)->attention) & SHM_ATTENTION_FREEZE)
                        return true;
        return false;
}

bool shm_repair_holder(ShmActor *control, uint32_t slab) {
        SlabWord w = shm_slab_word(control->arena, slab);
        uint32_t holder = slab_word_holder(w);

        if (holder == 0 || holder >= control->arena->n_records ||
            shm_record_owner(control->arena, holder).state != SHM_RECORD_UNUSED)
                return false;
        if (slab_word_place(w) == SLAB_HELD)
                return release(control, holder, slab) > 0;
        return slab_word_place(w) == SLAB_BUSY && shm_pages_undo(control, holder, slab, 1) > 0;
}
