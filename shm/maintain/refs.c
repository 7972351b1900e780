/*
 * References
 *
 * Purpose: gathers the references in all caches, intents, notes and guards. Time is linear in the number of references,
 *   even if records are garbage; memory depends on the number of slabs in question, not on the records.
 *
 * Invariants
 *   1. If a slot's bit, its tag and its slab's gen are the same before and after the gathering, the slot was in one
 *      place meanwhile, or moved within one record: claims raise gen, and allocating and freeing change the tag. When a
 *      slot moves within a record, the intent names it from before it leaves one place until it is in the next
 *      (shm/format/intent.h). So a gathering that reads the intent, the caches from the top down, and the intent again
 *      does not miss it.
 *   2. A slot may be live and in a cache only inside an operation that began before its tag was read: the owner's `seq`
 *      is odd, or the cache's count has been lowered.
 *   3. A thread notes or guards a handle before the owner can free the object. The maintainer makes the tags even,
 *      issues a membarrier, then reads notes and guards, and only then gives slots back.
 *   4. No index that is read here leads out of bounds: an id is left out if its slab is not in question, or if it is no
 *      slot of its cache's class.
 *   5. A ROLLED_BACK record refers to nothing: repair decides on its slots. The arena check, which has to see these
 *      slots, counts them as in flight. The same holds for record 0, the maintainer's own.
 *   6. A walk may go by a count that is older than the ids which it reads. So an id is stored by a release, and brings
 *      by itself what made the slot the cache's: the even tag, the claim. Else the check could see the id, and the tag
 *      from before the free.
 *
 * Who may do what: this code reads, and writes nothing.
 *
 * Crash: nothing is left.
 */
#include "shm/maintain/refs.h"

#include <string.h>

#include "shm/arena/note.h"
#include "shm/slab/slab.h"

#define NOTE_COST 8U /* taken off a step's budget: a note costs a cache miss on its tag */

/* Slabs in question */

static uint16_t *refs_entry(const ShmRefs *refs, uint32_t slab) {
        ShmRefsSome *some = refs->some;
        uint32_t at = (slab * UINT32_C(0x9e3779b1) >> 16) % SHM_REFS_TABLE;

        while (some->table[at] != 0 && some->ids[some->table[at] - 1] != slab)
                at = (at + 1) % SHM_REFS_TABLE;
        return &some->table[at];
}

/* NULL: the slab is not in question. */
static ShmRefSlab *refs_look_up(const ShmRefs *refs, uint32_t slab) {
        uint32_t index = refs->some ? *refs_entry(refs, slab) - 1U : slab;

        if (index >= refs->n)
                return NULL;
        if (refs->slabs[index].round != refs->round)
                refs->slabs[index] = (ShmRefSlab){ .round = refs->round };
        return &refs->slabs[index];
}

int shm_refs_index(const ShmRefs *refs, uint32_t slab) {
        return refs->some ? *refs_entry(refs, slab) - 1 : (int) slab;
}

int shm_refs_add(ShmRefs *refs, uint32_t slab) {
        uint16_t *at = refs_entry(refs, slab);

        if (*at == 0) {
                if (refs->n == SHM_REFS_MAX)
                        return -1;
                refs->slabs[refs->n].round = 0; /* no gathering: rounds begin with 1 */
                refs->some->ids[refs->n++] = slab;
                *at = (uint16_t) refs->n;
        }
        return *at - 1;
}

void shm_refs_expect(ShmRefs *refs, SlabWord w) {
        uint32_t index = shm_arena_cache_index(refs->arena, slab_word_epoch(w), slab_word_class(w));

        refs->caches[index / 64 % (SHM_CACHES_MAX / 64)] |= UINT64_C(1) << index % 64;
}

static void refs_mark_touched(const ShmRefs *refs, uint32_t slab) {
        const ShmSetShape *shape = &refs->arena->shape;
        uint32_t index = slab;

        for (uint32_t level = shape->n_levels; refs->touched && level > 0; level--) {
                refs->touched[shape->level_off[level - 1] + index / 64] |= UINT64_C(1) << index % 64;
                index /= 64;
        }
}

bool shm_refs_touch(const ShmRefs *refs, uint32_t slab, uint32_t level) {
        const ShmSetShape *shape = &refs->arena->shape;
        uint32_t index = slab >> 6 * (shape->n_levels - 1 - level);

        return refs->touched[shape->level_off[level] + index / 64] >> index % 64 & 1;
}

/* One reference */

static void gather_in_flight(const ShmRefs *refs, SlotId id) {
        ShmRefSlab *slab = refs_look_up(refs, slot_id_slab(id));

        if (!slab)
                return;
        slab->in_flight |= slot_id_mask(id);
        refs_mark_touched(refs, slot_id_slab(id));
}

static uint32_t load_tag(const ShmArena *arena, SlotId id) {
        /* ORDER: acq, pairs with shm_uncached_free(); after the intent that says which tag it is to have. */
        return shm_load_acq(shm_slot_tag(arena, id));
}

/* Lawful runs do not overlap. Hostile ones could cover the arena 4096 times: run_budget bounds them. */
static void gather_run(ShmRefs *refs, uint32_t slab, uint64_t n) {
        n = n < refs->n - slab ? n : refs->n - slab;
        n = n < refs->run_budget ? n : refs->run_budget;
        refs->run_budget -= n;
        for (uint64_t i = slab; i < slab + n; i++) {
                refs_look_up(refs, (uint32_t) i)->run = 1;
                refs_mark_touched(refs, (uint32_t) i);
        }
}

/* A FREE says nothing about the slot if another free won, or if it has not begun. */
static bool intent_counts(const ShmRefs *refs, ShmIntent intent) {
        if (intent.kind != SHM_INTENT_FREE)
                return intent.kind == SHM_INTENT_TAKE;
        return slot_id_slab(intent.id) < shm_arena_n_slabs_ever(refs->arena) &&
               load_tag(refs->arena, intent.id) == intent.tag + 1;
}

static void gather_intent(ShmRefs *refs, ShmIntent intent) {
        uint32_t slab = slot_id_slab(intent.id);
        ShmRefSlab *s = intent.kind == SHM_INTENT_NONE ? NULL : refs_look_up(refs, slab);

        if (!s || intent.kind == SHM_INTENT_FLUSH)
                return;
        if (intent.kind == SHM_INTENT_RUN) {
                if (!refs->some)
                        gather_run(refs, slab, intent.arg);
                return;
        }
        refs_mark_touched(refs, slab);
        if (intent.kind == SHM_INTENT_CLAIM)
                s->in_flight |= intent.mask;
        if (intent_counts(refs, intent))
                gather_in_flight(refs, intent.id);
}

/* The slot is in flight if its object is not live yet, or was freed. While the object lives, its tag protects it. */
static void gather_handle(const ShmRefs *refs, uint64_t handle) {
        uint32_t noted = shm_handle_tag(refs->arena->key, handle), tag;

        if (handle == 0 || !shm_handle_plausible(refs->arena, handle))
                return;
        tag = load_tag(refs->arena, shm_handle_slot(handle));
        if (tag + 1 == noted || tag == noted + 1)
                gather_in_flight(refs, shm_handle_slot(handle));
}

static void gather_slot(const ShmRefs *refs, ShmRefSlab *slab, SlotId id) {
        SlabWord w = shm_slab_word(refs->arena, slot_id_slab(id));
        uint64_t bit = slot_id_mask(id);

        if (slab_word_class(w) != refs->walk.class || slab_word_epoch(w) != refs->walk.epoch)
                slab->misfiled |= bit;
        if ((slab->cached | slab->inside) & bit)
                slab->twice |= bit;
        if (refs->is_inside)
                slab->inside |= bit;
        else
                slab->cached |= bit;
}

/* How many top slots are under FLUSH: the owner's intent says it or, if the owner is frozen, the maintainer's. */
static uint32_t n_flushed(const ShmRefs *refs) {
        uint32_t own = shm_intent_flushed(refs->intent, refs->record, refs->walk.index);
        uint32_t other =
                shm_intent_flushed(shm_record_intent(refs->arena, 0), refs->record, refs->walk.index);

        return own > other ? own : other;
}

static uint32_t gather_cache(const ShmRefs *refs) {
        uint32_t n = shm_cache_walk_count(&refs->walk), top = n_flushed(refs);
        uint32_t gone = shm_intent_flushed(refs->flush, refs->record, refs->walk.index);

        for (uint32_t i = n; i > 0; i--) {
                /* ORDER: acq, pairs with shm_cache_free_hit(); downwards, as a thread that allocates goes. */
                SlotId id = { shm_load_acq(&refs->walk.cache->slots[i - 1]) };
                ShmRefSlab *slab = n - i < gone ? NULL : refs_look_up(refs, slot_id_slab(id));

                if (!slab || slot_id_slot(id) >= refs->arena->classes[refs->walk.class].n_slots)
                        continue;
                if (!refs->alive || n - i < top)
                        gather_in_flight(refs, id);
                else
                        gather_slot(refs, slab, id);
        }
        return n;
}

/* Records */

static bool refs_names_slab(const ShmRefs *refs, uint32_t record, ShmRecordState state) {
        if (record == 0 || state == SHM_RECORD_ROLLED_BACK)
                return !refs->some;
        return state == SHM_RECORD_USED || state == SHM_RECORD_LEFT || state == SHM_RECORD_DEAD;
}

/* Gathers all references but the caches. False: the record refers to nothing. */
static bool begin_record(ShmRefs *refs, uint32_t *budget) {
        const ShmRecord *r = shm_arena_record(refs->arena, refs->record);
        ShmRecordState state = shm_record_owner(refs->arena, refs->record).state;
        uint64_t n_notes;

        if (!refs_names_slab(refs, refs->record, state))
                return false;
        refs->alive = refs->record > 0 && (state == SHM_RECORD_USED || state == SHM_RECORD_LEFT);
        /* ORDER: acq, pairs with shm_actor_leave(); before the caches (invariant 2). */
        refs->is_inside = shm_load_acq(&r->seq) & 1;
        refs->intent = shm_record_intent(refs->arena, refs->record);
        gather_intent(refs, refs->intent);
        /* ORDER: acq, pairs with shm_actor_guard(); in front of the caches, like the intent. */
        gather_handle(refs, shm_load_acq(&r->guard));
        n_notes = shm_load_acq(
                &r->n_notes); /* ORDER: acq, pairs with shm_actor_note(); raised before the note. */
        for (uint32_t i = 0; i < SHM_NOTES_MAX && i < n_notes; i++) {
                /* ORDER: acq, pairs with shm_actor_note(); as the guard. */
                uint64_t handle = shm_load_acq(&r->notes[i].handle);

                gather_handle(refs, handle);
                if (handle != 0)
                        *budget -= NOTE_COST < *budget ? NOTE_COST : *budget;
        }
        refs->walk = (ShmCacheWalk){};
        return true;
}

/* False: the record was read. */
static bool next_cache(ShmRefs *refs, uint32_t *budget) {
        uint32_t n = 0;

        if (!shm_cache_walk_next(&refs->walk, refs->arena, refs->record))
                return false;
        if (!refs->some || refs->caches[refs->walk.index / 64] >> refs->walk.index % 64 & 1)
                n = gather_cache(refs);
        *budget -= n + 1 < *budget ? n + 1 : *budget;
        return true;
}

bool shm_refs_step(ShmRefs *refs, uint32_t *budget) {
        for (; refs->record < shm_arena_n_records_ever(refs->arena); refs->record++, refs->begun = false) {
                if (*budget == 0)
                        return false;
                *budget -= 1;
                if (!refs->begun && !begin_record(refs, budget))
                        continue;
                refs->begun = true;
                while (next_cache(refs, budget))
                        if (*budget == 0)
                                return false;
                gather_intent(refs, shm_record_intent(refs->arena, refs->record));
        }
        return true;
}

/* Whole */

void shm_refs_begin(ShmRefs *refs) {
        refs->record = 0;
        refs->begun = false;
        refs->round++;
        if (refs->touched)
                memset(refs->touched, 0, refs->arena->shape.stride * sizeof(*refs->touched));
        refs->run_budget = 2 * (uint64_t) refs->n + 128 * (uint64_t) shm_arena_n_records_ever(refs->arena);
}

size_t shm_refs_whole_size(const ShmArena *arena, uint32_t n_slabs) {
        return n_slabs * sizeof(ShmRefSlab) + arena->shape.stride * sizeof(uint64_t);
}

void shm_refs_init_whole(ShmRefs *refs, const ShmArena *arena, uint32_t n_slabs, void *memory) {
        ShmRefSlab *slabs = memory;

        *refs = (ShmRefs){
                .arena = arena, .slabs = slabs, .n = n_slabs, .touched = (uint64_t *) (slabs + n_slabs)
        };
}

void shm_refs_init_some(ShmRefs *refs, const ShmArena *arena, ShmRefsSome *some) {
        *refs = (ShmRefs){ .arena = arena, .slabs = some->slabs, .some = some };
        memset(some->table, 0, sizeof(some->table));
}

static bool has_slot(const ShmCacheWalk *walk, SlotId id) {
        for (uint32_t i = 0, n = shm_cache_walk_count(walk); i < n; i++)
                /* ORDER: rlx; for a text. */
                if (shm_load_rlx(&walk->cache->slots[i]) == id.value)
                        return true;
        return false;
}

uint32_t shm_refs_find(const ShmArena *arena, SlotId id, uint32_t ret_records[2]) {
        uint32_t n = 0;

        for (uint32_t record = 0; record < shm_arena_n_records_ever(arena); record++) {
                ShmRecordState state = shm_record_owner(arena, record).state;

                if (record > 0 && (state == SHM_RECORD_UNUSED || state >= _SHM_RECORD_STATE_N))
                        continue;
                for (ShmCacheWalk walk = {}; n < 2 && shm_cache_walk_next(&walk, arena, record);)
                        if (has_slot(&walk, id))
                                ret_records[n++] = record;
        }
        return n;
}
