/*
 * Judging slots
 *
 * Purpose: the rule by which repair tells a slot that is lost from one that is somebody's, for up to
 *   SHM_JUDGE_MAX slots by one scan of all records, beside threads that go on.
 *
 * Invariants
 *   1. A slot whose bit, tag and slab's gen are the same before and after the scan changed hands at
 *      most within one record meanwhile: claims raise gen, allocating and freeing change the tag.
 *   2. Within a record, the intent names a slot from before it is taken until it is in a cache, and
 *      from before it leaves the cache until it is given back. So intent, cache from the top down,
 *      intent again do not miss it.
 *   3. A slot that is taken, with an even tag, and named nowhere, cannot come to be anybody's: a claim
 *      wants its bit clear, a free its tag odd. Giving it back needs no lock; control alone does so.
 *   4. Records that are SWEPT name nothing: what they hold is suspect, whoever judges it first.
 *   5. What is read leads nowhere outside: ids are compared, and followed only after a check.
 *
 * Who may do what: control work. Everybody else goes on meanwhile.
 *
 * Crash: giving back is one compare-and-set a slab, under SLAB; the record that made the slots suspect
 *   stays until all is done, and judging anew finds them free, or somebody's.
 */
#include "shm/maintain/judge.h"

#include "shm/cache-walk.h"
#include "shm/slab.h"

#ifdef SHM_STEP
#define ROUNDS 1 /* each claim that comes between leads to what a storm of them would */
#else
#define ROUNDS 4
#endif
#define SEIZED_MAX 8 /* slabs at a time: each costs a scan of all records */

void shm_judge_init(ShmJudge *judge, const ShmArena *arena, bool live) {
        *judge = (ShmJudge){ .arena = arena, .live = live };
}

/* Where the id is in the table, or would be. It is never full. */
static uint16_t *look_up(ShmJudge *judge, uint32_t id) {
        uint32_t at = id * UINT32_C(0x9e3779b1) >> 22;

        while (judge->table[at] != 0 && judge->suspects[judge->table[at] - 1].id.value != id)
                at = (at + 1) % SHM_JUDGE_TABLE;
        return &judge->table[at];
}

void shm_judge_add(ShmJudge *judge, SlotId id) {
        uint16_t *at = look_up(judge, id.value);

        if (*at != 0 || judge->n == SHM_JUDGE_MAX || slot_id_slab(id) >= shm_arena_n_slabs_ever(judge->arena))
                return;
        judge->suspects[judge->n++] = (ShmSuspect){ .id = id };
        *at = (uint16_t) judge->n;
}

/* False: the slot is free, or an object. */
static bool sample(const ShmJudge *judge, SlotId id, SlabWord *ret_word, uint32_t *ret_tag) {
        const ShmArena *arena = judge->arena;
        SlabWord w = shm_slab_word(arena, slot_id_slab(id));
        SlabPlace place = slab_word_place(w);

        *ret_word = w;
        /* ORDER: acq, pairs with shm_object_free_uncached(); the word before it, the records after it. */
        *ret_tag = shm_load_acq(shm_slot_tag(arena, id));
        return place >= SLAB_LISTED && place <= SLAB_DRAINING && slab_word_class(w) < arena->n_classes &&
               slab_word_epoch(w) < arena->n_epochs &&
               slot_id_slot(id) < arena->classes[slab_word_class(w)].n_slots && (w.low & slot_id_mask(id)) &&
               (*ret_tag & 1) == judge->live &&
               /* An object of another era took the place of one that was freed: it is not revoked. */
               (!judge->live || (w.high & SLAB_TARGET_MASK) == judge->target);
}

/* How many are to be judged yet. */
static uint32_t sample_all(ShmJudge *judge) {
        uint32_t n = 0, index;

        for (uint32_t i = 0; i < judge->n; i++) {
                ShmSuspect *s = &judge->suspects[i];

                if (s->verdict != SHM_VERDICT_OPEN)
                        continue;
                s->named = SHM_VERDICT_OPEN;
                if (!sample(judge, s->id, &s->word, &s->tag)) {
                        s->verdict = SHM_VERDICT_OVER;
                        continue;
                }
                index = slab_word_epoch(s->word) * judge->arena->n_classes + slab_word_class(s->word);
                judge->caches[index / 64] |= UINT64_C(1) << index % 64;
                n++;
        }
        return n;
}

static void name(ShmSuspect *suspect, ShmVerdict by) {
        if (suspect->named != SHM_VERDICT_OWNED)
                suspect->named = by;
}

static void scan_intent(ShmJudge *judge, ShmIntent intent) {
        uint32_t slab = slot_id_slab(intent.id);
        uint16_t at;

        if (intent.kind == SHM_INTENT_FREE || intent.kind == SHM_INTENT_TAKE) {
                at = *look_up(judge, intent.id.value);
                /* A free that lost its race, or has not begun, says nothing of the slot. */
                if (at != 0 &&
                    (intent.kind == SHM_INTENT_TAKE || judge->suspects[at - 1].tag == intent.tag + 1))
                        name(&judge->suspects[at - 1], SHM_VERDICT_UNSETTLED);
        }
        if (intent.kind != SHM_INTENT_CLAIM)
                return;
        for (uint64_t rest = intent.mask; rest != 0; rest &= rest - 1) {
                at = *look_up(judge, slot_id(slab, (uint32_t) __builtin_ctzll(rest)).value);
                if (at != 0)
                        name(&judge->suspects[at - 1], SHM_VERDICT_UNSETTLED);
        }
}

static void scan_cache(ShmJudge *judge, const ShmCacheWalk *walk, uint32_t record, ShmIntent intent,
                       bool alive) {
        uint32_t n = shm_cache_walk_count(walk), top = shm_intent_flushed(intent, record, walk->index);
        uint32_t dead_top = shm_intent_flushed(judge->flush, record, walk->index);

        for (uint32_t i = n; i > 0; i--) {
                /* ORDER: acq, pairs with shm_cache_free(); downwards, as a thread that allocates goes. */
                uint16_t at = *look_up(judge, shm_load_acq(&walk->cache->slots[i - 1]));

                if (at != 0 && n - i >= dead_top)
                        name(&judge->suspects[at - 1],
                             alive && n - i >= top ? SHM_VERDICT_OWNED : SHM_VERDICT_UNSETTLED);
        }
}

static void scan_record(ShmJudge *judge, uint32_t record, bool alive) {
        ShmIntent intent = shm_record_intent(judge->arena, record);

        scan_intent(judge, intent);
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, judge->arena, record);)
                if (judge->caches[walk.index / 64] >> walk.index % 64 & 1)
                        scan_cache(judge, &walk, record, intent, alive);
        scan_intent(judge, shm_record_intent(judge->arena, record));
}

/* Record 0 is control's own. */
static void scan_records(ShmJudge *judge) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(judge->arena); i++) {
                ShmRecordState state = shm_record_owner(judge->arena, i).state;

                if (state == SHM_RECORD_USED || state == SHM_RECORD_LEFT || state == SHM_RECORD_DEAD)
                        scan_record(judge, i, state != SHM_RECORD_DEAD);
        }
}

static void settle(const ShmJudge *judge, ShmSuspect *suspect) {
        const uint64_t claimed = ~(SLAB_PLACE_MASK | SLAB_HOLDER_MASK);
        SlabWord word;
        uint32_t tag;

        if (!sample(judge, suspect->id, &word, &tag))
                suspect->verdict = SHM_VERDICT_OVER;
        else if (tag == suspect->tag && ((word.high ^ suspect->word.high) & claimed) == 0)
                suspect->verdict = suspect->named == SHM_VERDICT_OPEN ? SHM_VERDICT_LOST : suspect->named;
}

void shm_judge_decide(ShmJudge *judge) {
        for (int round = 0; round < ROUNDS && sample_all(judge) > 0; round++) {
                scan_records(judge);
                for (uint32_t i = 0; i < judge->n; i++)
                        if (judge->suspects[i].verdict == SHM_VERDICT_OPEN)
                                settle(judge, &judge->suspects[i]);
        }
}

/* Refused: only where somebody scribbled over the word. */
static uint64_t give_back(ShmActor *control, uint32_t slab, uint64_t mask) {
        /* ORDER: rlx; our own. One that stands names the slots: control repairs itself, or revokes. */
        bool stands = shm_load_rlx(&control->record->intent_what) != 0, done;

        if (!stands)
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        done = shm_slab_give_back(control, slab, mask) == 0;
        if (!stands)
                shm_actor_intend(control, 0);
        return done ? mask : 0;
}

/* Of one slab, from suspect `first` on; earlier ones of it were seen to already. */
static uint64_t lost_of(const ShmJudge *judge, uint32_t first) {
        uint32_t slab = slot_id_slab(judge->suspects[first].id);
        uint64_t mask = 0;

        for (uint32_t i = 0; i < judge->n; i++) {
                const ShmSuspect *s = &judge->suspects[i];

                if (slot_id_slab(s->id) != slab || s->verdict != SHM_VERDICT_LOST)
                        continue;
                if (i < first)
                        return 0;
                mask |= slot_id_mask(s->id);
        }
        return mask;
}

static uint32_t give_back_lost(const ShmJudge *judge, ShmActor *control) {
        uint32_t n = 0;
        uint64_t mask;

        for (uint32_t i = 0; i < judge->n; i++) {
                if (judge->suspects[i].verdict != SHM_VERDICT_LOST)
                        continue;
                mask = lost_of(judge, i);
                if (mask != 0)
                        n += (uint32_t) __builtin_popcountll(
                                give_back(control, slot_id_slab(judge->suspects[i].id), mask));
        }
        return n;
}

/* Judges with the slab in control's hand: nobody claims of it meanwhile. */
static void decide_seized(ShmJudge *judge, ShmActor *control, uint32_t slab) {
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        (void) shm_slab_seize(control, slab); /* refused: then its slots are nobody's, or its era is over */
        shm_judge_decide(judge);
        (void) shm_slab_release(control, slab);
        shm_actor_intend(control, 0);
}

uint32_t shm_judge_give_back(ShmJudge *judge, ShmActor *control) {
        /* ORDER: rlx; our own. Under one that stands no other can name a slab. */
        bool stands = shm_load_rlx(&control->record->intent_what) != 0;
        uint32_t n_seized = 0;

        for (uint32_t i = 0; i < judge->n && n_seized < SEIZED_MAX && !stands; i++)
                if (judge->suspects[i].verdict == SHM_VERDICT_OPEN) {
                        decide_seized(judge, control, slot_id_slab(judge->suspects[i].id));
                        n_seized++;
                }
        return give_back_lost(judge, control);
}

uint64_t shm_judge_slab(ShmActor *control, uint32_t slab, uint64_t mask) {
        uint64_t lost = 0;
        ShmJudge judge;

        shm_judge_init(&judge, control->arena, false);
        for (; mask != 0; mask &= mask - 1)
                shm_judge_add(&judge, slot_id(slab, (uint32_t) __builtin_ctzll(mask)));
        shm_judge_decide(&judge);
        (void) shm_judge_give_back(&judge, control);
        for (uint32_t i = 0; i < judge.n; i++)
                if (judge.suspects[i].verdict == SHM_VERDICT_LOST)
                        lost |= slot_id_mask(judge.suspects[i].id);
        return lost;
}
