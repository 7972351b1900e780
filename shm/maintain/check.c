/*
 * Checking an arena
 *
 * Purpose: the reachability rule, applied to every slot of an arena that may be in full use.
 *
 * One walk over all slabs, with the references of all records gathered once (shm/maintain/refs.h), finds candidates.
 * The candidates are then checked together, in up to ROUNDS rounds. A round views their slabs, gathers, and views the
 * slabs again. The gathered references decide on each slot that did not change between the two views. A slot that
 * changed, or is in flight, goes to the next round; after the last round it counts as in flight.
 *
 * Invariants
 *   1. The first walk may find a slot sound. It never reports one as lost or doubled.
 *   2. A slot is decided on only if its bit, its tag and gen, class, epoch and era of its slab were the
 *      same before and after the gathering (invariant 1 of shm/maintain/refs.c).
 *   3. A hint is called wrong only if it was missing in every round, while the word stood still and
 *      no intent named the slab, or one below the same bit. An operation sets a hint after the word. An operation that
 *      clears a stale hint may set it again, and its intent says where.
 *   4. Time is linear in slabs and in the slots that records list, even if the lists are garbage: at most BATCH slabs
 *      are candidates at once, and each batch costs ROUNDS gatherings. A step is some slabs, or some slots.
 *   5. Until they are collected, slots of an era that is being revoked are taken, their tags are even, and no record
 *      refers to them. They count as in flight. So a slot is lost only if the check finds that its era is not to be
 *      revoked, and then finds the slot unchanged.
 *
 * Who may do what: the checker reads, and writes nothing, unless the maintainer asked it to repair.
 *
 * Crash: a check leaves nothing behind.
 */
#include "shm/maintain/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shm/epoch/epoch.h"
#include "shm/maintain/check-facts.h"
#include "shm/maintain/hints.h"
#include "shm/maintain/reach.h"
#include "shm/maintain/repair.h"
#include "shm/arena/record.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

#define ROUNDS 3
#ifdef SHM_STEP
#define BATCH 4 /* the explorer copies them at each step */
#else
#define BATCH 4096
#endif

/* One bit per slot. */
typedef struct SlotResults {
        uint64_t lost, doubled, in_flight;
} SlotResults;

typedef struct Candidate {
        ShmSlabView view;
        uint64_t slots; /* in question */
        bool word;
        bool hint;
} Candidate;

struct ShmCheckRun {
        const ShmArena *arena;
        ShmActor *control; /* NULL: nothing is repaired */
        ShmCheck *result;
        ShmRefs refs;
        uint32_t n_slabs;
        uint32_t position; /* slab to look at next */
        uint32_t record; /* to be looked at next */
        bool gathered; /* for the first time */
        int round; /* which check of the candidates; 0: the walk still looks for them */
        size_t n_candidates;
        Candidate candidates[BATCH];
};

static bool word_decodes(const ShmArena *arena, SlabWord w) {
        return slab_word_state(w) < _SLAB_STATE_N && slab_word_class(w) < arena->n_classes &&
               slab_word_epoch(w) < arena->n_epochs;
}

static SlotResults check_view_slots(const ShmCheckRun *c, const ShmSlabView *view) {
        const ShmArena *arena = c->arena;
        ShmRefSlab named = shm_refs_at(&c->refs, view->slab), *ref = &named;
        uint64_t bits = shm_slab_view_taken(arena, view->word), live = view->live;
        uint64_t held = ref->cached | ref->inside;
        ShmRevoking revoking;
        SlotResults v = {};

        if (!word_decodes(arena, view->word))
                return v; /* a garbage word says nothing about its slots */
        v.doubled = ref->twice | ref->misfiled | (~bits & (live | held)) | (bits & live & ref->cached);
        v.in_flight = bits & ~v.doubled &
                      ((live & (ref->inside | ref->in_flight)) | (~live & ~held & ref->in_flight));
        v.lost = bits & ~live & ~(held | ref->in_flight) & ~v.doubled;
        if (v.lost != 0 && shm_epoch_revoking(arena, slab_word_epoch(view->word), &revoking) &&
            shm_revoking_has(&revoking, slab_word_era(view->word))) {
                v.in_flight |= v.lost;
                v.lost = 0;
        }
        return v;
}

static bool bit_at(const ShmArena *arena, uint32_t set, uint32_t level, uint32_t slab) {
        uint32_t index = slab >> 6 * (arena->shape.n_levels - 1 - level);
        const uint64_t *words = arena->sets + set * arena->shape.stride + arena->shape.level_off[level];

        /* ORDER: acq, pairs with shm_set_add_mask(); after the word that wants it. */
        return shm_load_acq(&words[index / 64]) >> index % 64 & 1;
}

/* Whether a set lacks a slab, and no intent accounts for it. `ret_level` counts from the leaves. */
static bool hint_missing(const ShmCheckRun *c, uint32_t set, uint32_t slab, uint32_t *ret_level) {
        if (shm_set_has(c->arena, set, slab))
                return false;
        for (uint32_t i = 0; i < c->arena->shape.n_levels; i++) {
                uint32_t level = c->arena->shape.n_levels - 1 - i;

                if (!bit_at(c->arena, set, level, slab) && !shm_refs_touch(&c->refs, slab, level)) {
                        *ret_level = i;
                        return true;
                }
        }
        return false;
}

/* The name of a set that lacks the slab, or NULL. */
static const char *check_hints(const ShmCheckRun *c, uint32_t slab, SlabWord w, uint32_t *ret_level) {
        const ShmArena *arena = c->arena;
        SlabState state = slab_word_state(w);
        uint32_t epoch = slab_word_epoch(w);

        if (!word_decodes(arena, w))
                return NULL;
        if (state == SLAB_FREE)
                return hint_missing(c, SHM_SET_FREE, slab, ret_level) ? "free" : NULL;
        if (state == SLAB_UNCOMMITTED)
                return hint_missing(c, SHM_SET_UNCOMMITTED, slab, ret_level) ? "uncommitted" : NULL;
        if (state == SLAB_PARTIAL &&
            hint_missing(c, shm_set_partial(arena, epoch, slab_word_class(w)), slab, ret_level))
                return "partial";
        if (shm_check_in_use(state) && hint_missing(c, shm_set_of_epoch(arena, epoch), slab, ret_level))
                return "of_epoch";
        return NULL;
}

static void report_word(ShmCheckRun *c, const ShmSlabView *view, const char *what) {
        shm_check_problem(c->result, "slab %u: %s (%s, class %u, epoch %u, holder %u, bitmap %016" PRIx64 ")",
                          view->slab, what, slab_state_to_string(slab_word_state(view->word)),
                          slab_word_class(view->word), slab_word_epoch(view->word),
                          slab_word_holder(view->word), view->word.low);
}

static void report_hint(ShmCheckRun *c, const ShmSlabView *view, const char *set, uint32_t level) {
        if (c->control) {
                shm_hints_repair(c->arena, view->slab);
                c->result->repaired++;
                return;
        }
        c->result->wrong_hints++;
        shm_check_problem(c->result,
                          "slab %u (%s, class %u, epoch %u): set '%s' lacks it at level %u from the leaves",
                          view->slab, slab_state_to_string(slab_word_state(view->word)),
                          slab_word_class(view->word), slab_word_epoch(view->word), set, level);
}

static void report_doubled(ShmCheckRun *c, const ShmSlabView *view, uint32_t slot) {
        ShmRefSlab named = shm_refs_at(&c->refs, view->slab), *ref = &named;
        uint64_t bit = UINT64_C(1) << slot;
        const char *state = !(shm_slab_view_taken(c->arena, view->word) & bit) ? "free in the bitmap"
                            : view->live & bit                                 ? "live"
                                                                               : "taken";
        uint32_t records[2] = {}, n = 0;

        if (c->result->n_texts < SHM_CHECK_PROBLEMS_MAX)
                n = shm_refs_find(c->arena, slot_id(view->slab, slot), records);
        if (n == 0)
                shm_check_problem(c->result, "slab %u slot %u: doubled: %s, but live", view->slab, slot,
                                  state);
        else if (n == 1 && (ref->misfiled & bit))
                shm_check_problem(c->result,
                                  "slab %u slot %u: %s, in record %u's cache of another class or epoch",
                                  view->slab, slot, state, records[0]);
        else if (n == 1)
                shm_check_problem(c->result, "slab %u slot %u: doubled: %s, but in a cache of record %u%s",
                                  view->slab, slot, state, records[0], ref->twice & bit ? ", twice" : "");
        else
                shm_check_problem(c->result,
                                  "slab %u slot %u: doubled: %s, in caches of record %u and record %u",
                                  view->slab, slot, state, records[0], records[1]);
}

static void report_slots(ShmCheckRun *c, const ShmSlabView *view, SlotResults v) {
        if (c->control && v.lost != 0 && shm_reach_free(c->control, view->slab, v.lost)) {
                c->result->repaired += (uint64_t) __builtin_popcountll(v.lost);
                v.lost = 0;
        }
        c->result->lost_slots += (uint64_t) __builtin_popcountll(v.lost);
        c->result->doubled_slots += (uint64_t) __builtin_popcountll(v.doubled);
        for (uint64_t rest = v.lost; rest != 0; rest &= rest - 1)
                shm_check_problem(
                        c->result, "slab %u slot %d (%u bytes, epoch %u): lost: taken, tag %08x, in no cache",
                        view->slab, __builtin_ctzll(rest), shm_slab_class(c->arena, view->word)->size,
                        slab_word_epoch(view->word), view->tags[__builtin_ctzll(rest)]);
        for (uint64_t rest = v.doubled; rest != 0; rest &= rest - 1)
                report_doubled(c, view, (uint32_t) __builtin_ctzll(rest));
}

/*
 * Slots may look lost because a revocation gave them back: it may have ended after the last view, and before the check
 * asked whether there is one. So the check looks at them once more.
 */
static uint64_t lost_still(const ShmCheckRun *c, const ShmSlabView *view, uint64_t lost) {
        ShmSlabView now;

        if (lost == 0)
                return 0;
        shm_slab_view(c->arena, view->slab, &now);
        return lost & shm_slab_view_same(view, &now);
}

/* Decides by the references gathered between the two views. Reports each decision, and drops its slot. */
static void check_candidate(ShmCheckRun *c, Candidate *s, const ShmSlabView *after, bool last) {
        bool still = memcmp(&s->view.word, &after->word, sizeof(after->word)) == 0;
        SlotResults v = check_view_slots(c, after);
        uint64_t same = s->slots & shm_slab_view_same(&s->view, after);
        uint32_t level = 0;
        const char *wrong;

        same &= ~v.lost | lost_still(c, after, v.lost);
        report_slots(c, after, (SlotResults){ .lost = v.lost & same, .doubled = v.doubled & same });
        s->slots &= ~(same & ~v.in_flight);
        if (s->word && still) {
                wrong = shm_check_word(c->arena, after->word);
                wrong = wrong ?: shm_check_holder(c->arena, &c->refs, after->slab, after->word);
                if (wrong && c->control && shm_repair_holder(c->control, after->slab))
                        c->result->repaired++;
                else if (wrong)
                        report_word(c, after, wrong);
                s->word = false;
        }
        if (s->hint) {
                wrong = still ? check_hints(c, after->slab, after->word, &level) : NULL;
                if (wrong && last)
                        report_hint(c, after, wrong, level);
                s->hint = wrong && !last;
        }
}

static void view_candidates(ShmCheckRun *c) {
        for (size_t i = 0; i < c->n_candidates; i++)
                shm_slab_view(c->arena, c->candidates[i].view.slab, &c->candidates[i].view);
        shm_refs_begin(&c->refs);
}

/*
 * A round was gathered: decides on its candidates. After the last round, slots that are still in question are in
 * flight.
 */
static void check_candidates(ShmCheckRun *c) {
        ShmSlabView after;

        for (size_t i = 0; i < c->n_candidates; i++) {
                shm_slab_view(c->arena, c->candidates[i].view.slab, &after);
                check_candidate(c, &c->candidates[i], &after, c->round == ROUNDS);
        }
        if (c->round++ < ROUNDS) {
                view_candidates(c);
                return;
        }
        for (size_t i = 0; i < c->n_candidates; i++)
                c->result->in_flight_slots += (uint64_t) __builtin_popcountll(c->candidates[i].slots);
        c->n_candidates = 0;
        c->round = 0;
}

static void check_slab(ShmCheckRun *c, uint32_t slab) {
        ShmSlabView view;
        uint32_t level;
        bool word, hint;
        SlotResults v;

        shm_slab_view(c->arena, slab, &view);
        v = check_view_slots(c, &view);
        word = shm_check_word(c->arena, view.word) || shm_check_holder(c->arena, &c->refs, slab, view.word);
        hint = check_hints(c, slab, view.word, &level) != NULL;
        c->result->slabs++;
        if (shm_check_in_use(slab_word_state(view.word)))
                c->result->slots += shm_slab_class(c->arena, view.word)->n_slots;
        if ((v.lost | v.doubled | v.in_flight) == 0 && !word && !hint)
                return;
        c->candidates[c->n_candidates++] = (Candidate){
                .view.slab = slab, .slots = v.lost | v.doubled | v.in_flight, .word = word, .hint = hint
        };
}

static void find_candidates(ShmCheckRun *c, uint32_t n) {
        for (; n > 0 && c->position < c->n_slabs && c->n_candidates < BATCH; n--)
                check_slab(c, c->position++);
        if (c->n_candidates == BATCH || (c->n_candidates > 0 && c->position == c->n_slabs)) {
                c->round = 1;
                view_candidates(c);
        }
}

bool shm_check_step(ShmCheckRun *c, uint32_t n) {
        if (c->record < shm_arena_n_records_ever(c->arena)) {
                shm_check_record(c->arena, c->result, c->record++);
                return true;
        }
        if (!c->gathered || c->round > 0) {
                if (!shm_refs_step(&c->refs, &n))
                        return true;
                c->gathered = true;
        }
        if (c->round > 0)
                check_candidates(c);
        else
                find_candidates(c, n);
        return c->round > 0 || c->position < c->n_slabs;
}

void shm_check_progress(const ShmCheckRun *c, uint32_t *ret_done, uint32_t *ret_total) {
        *ret_done = c->position;
        *ret_total = c->n_slabs;
}

size_t shm_check_size(const ShmArena *arena, uint32_t n_slabs) {
        return sizeof(ShmCheckRun) + shm_refs_whole_size(arena, n_slabs);
}

ShmCheckRun *shm_check_begin(void *memory, const ShmArena *arena, uint32_t n_slabs, ShmActor *control,
                             ShmCheck *result) {
        ShmCheckRun *c = memory;

        *result = (ShmCheck){};
        c->arena = arena;
        c->control = control;
        c->result = result;
        c->n_slabs = n_slabs;
        shm_check_epochs(arena, result);
        shm_refs_init_whole(&c->refs, arena, n_slabs, c + 1);
        shm_refs_begin(&c->refs);
        return c;
}

static int check_run_all(const ShmArena *arena, ShmActor *control, ShmCheck *ret) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(arena);
        void *memory = calloc(1, shm_check_size(arena, n_slabs));
        ShmCheckRun *c;

        if (!memory)
                return -ENOMEM;
        c = shm_check_begin(memory, arena, n_slabs, control, ret);
        while (shm_check_step(c, UINT32_MAX))
                ;
        free(memory);
        return 0;
}

int shm_check(const ShmArena *arena, ShmCheck *ret) {
        return check_run_all(arena, NULL, ret);
}

int shm_check_repair(ShmActor *control, ShmCheck *ret) {
        return check_run_all(control->arena, control, ret);
}
