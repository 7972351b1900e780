/*
 * The reachability check
 *
 * Purpose: finds, while threads go on, slots that are lost: taken, though no record refers to them. One gathering
 *   decides on the candidates of up to SHM_REFS_MAX slabs.
 *
 * Invariants
 *   1. A slot is decided on only if its bit and tag and its slab's gen were the same before and after the
 *      gathering (invariant 1 of shm/maintain/refs.c).
 *   2. If a slot is taken, its tag is even, and no record refers to it, then no thread can come to own it: a claim
 *      needs its bit clear, a free its tag odd. Giving it back needs no lock; the maintainer alone does so.
 *   3. Until a slab that the check pinned is released, the intent SLAB or `held` of a cache of record 0 names it.
 *   4. A step is short: some slabs viewed, or some slots gathered.
 *
 * Who may do what: the maintainer. Everybody else goes on meanwhile.
 *
 * Crash: each slab's slots go back by one compare-and-set, under SLAB or under an intent that stands and names the
 *   slab. The record that made the slots candidates keeps them until the check is over; the next check finds them
 *   free, or owned.
 */
#include "shm/maintain/reach.h"

#include <string.h>

#include "shm/cache/cache-drain.h"
#include "shm/slab/slab.h"

#ifdef SHM_STEP
#define ROUNDS 1 /* one claim in between has the effect of many */
#else
#define ROUNDS 4
#endif
#define PINNED_MAX 8 /* slabs: each costs a gathering */
#define VIEW_COST SHM_SLOTS_MAX

/* Views */

/* In the explorer each tag costs a step: it reads only tags of slots that exist. */
static uint32_t n_viewed(const ShmArena *arena, SlabWord w) {
        if (slab_word_state(w) == SLAB_UNCOMMITTED)
                return 0; /* its tags count for nothing, and their page need not come into being */
#ifdef SHM_STEP
        return slab_word_class(w) < arena->n_classes ? shm_slab_class(arena, w)->n_slots : SHM_SLOTS_MAX;
#else
        (void) arena;
        return SHM_SLOTS_MAX;
#endif
}

void shm_slab_view(const ShmArena *arena, uint32_t slab, ShmSlabView *ret) {
        uint32_t n;

        ret->slab = slab;
        ret->word = shm_slab_word(arena, slab);
        ret->live = 0;
        memset(ret->tags, 0, sizeof(ret->tags));
        n = n_viewed(arena, ret->word);
        for (uint32_t i = 0; i < n; i++) {
                /* ORDER: acq, pairs with shm_object_free(); between word and word. */
                ret->tags[i] = shm_load_acq(&arena->tags[slab].tag[i]);
                ret->live |= (uint64_t) (ret->tags[i] & 1) << i;
        }
}

uint64_t shm_slab_view_same(const ShmSlabView *before, const ShmSlabView *after) {
        const uint64_t claimed = ~(SLAB_STATE_MASK | SLAB_SPARSE | SLAB_HOLDER_MASK);
        uint64_t same = ~(before->word.low ^ after->word.low);

        if ((before->word.high ^ after->word.high) & claimed)
                return 0;
        for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++)
                same &= ~((uint64_t) (before->tags[i] != after->tags[i]) << i);
        return same;
}

uint64_t shm_slab_view_taken(const ShmArena *arena, SlabWord w) {
        SlabState state = slab_word_state(w);

        if (state < SLAB_PARTIAL || state > SLAB_DRAINING || slab_word_class(w) >= arena->n_classes ||
            slab_word_epoch(w) >= arena->n_epochs)
                return 0;
        return w.low & ~shm_slab_class(arena, w)->tail_mask;
}

/* The check */

void shm_reach_init(ShmReach *reach, ShmActor *control) {
        reach->control = control;
        reach->state = SHM_REACH_VIEW;
        reach->position = reach->round = reach->n_pinned = 0;
        reach->pinned = NULL;
        shm_refs_init_some(&reach->refs, control->arena, &reach->some);
}

bool shm_reach_add(ShmReach *reach, uint32_t slab, uint64_t mask) {
        uint32_t n = reach->refs.n;
        int index;

        if (slab >= shm_arena_n_slabs_ever(reach->control->arena))
                return true;
        index = shm_refs_add(&reach->refs, slab);
        if (index < 0)
                return false;
        if (reach->refs.n > n)
                reach->slabs[index] = (ShmReachSlab){};
        reach->slabs[index].open |= mask;
        return true;
}

bool shm_reach_free(ShmActor *control, uint32_t slab, uint64_t mask) {
        /* ORDER: rlx; our own. An intent that stands names the slab: the maintainer repairs record 0. */
        bool stands = shm_load_rlx(&control->record->intent_what) != 0, done;

        if (!stands)
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        done = shm_slab_free_slots(control, slab, mask) == 0;
        if (!stands)
                shm_actor_intend(control, 0);
        return done;
}

static void reach_decide_slab(ShmReach *reach, uint32_t i) {
        const ShmArena *arena = reach->control->arena;
        ShmReachSlab *s = &reach->slabs[i];
        ShmRefSlab ref = shm_refs_at(&reach->refs, i);
        uint64_t same, owned, lost;
        ShmSlabView after;

        if (s->open == 0)
                return;
        shm_slab_view(arena, shm_refs_slab(&reach->refs, i), &after);
        s->open &= shm_slab_view_taken(arena, after.word) & ~after.live;
        same = s->open & shm_slab_view_same(&reach->views[i], &after);
        owned = same & (ref.cached | ref.inside);
        lost = same & ~(owned | ref.in_flight);
        if (lost != 0)
                (void) shm_reach_free(reach->control, after.slab, lost);
        s->open &= ~same;
        s->owned |= owned;
        s->lost |= lost;
        s->in_flight |= same & ref.in_flight & ~owned;
}

static void reach_view_slab(ShmReach *reach, uint32_t i) {
        ShmSlabView *view = &reach->views[i];

        if (reach->slabs[i].open == 0)
                return;
        shm_slab_view(reach->control->arena, shm_refs_slab(&reach->refs, i), view);
        shm_refs_expect(&reach->refs, view->word);
}

static void release_seized(ShmReach *reach) {
        if (reach->pinned)
                shm_cache_release_held(reach->control, 0, reach->pinned);
        reach->pinned = NULL;
}

/* Pins the slab, so that no thread claims slots of it. No intent may stand: intents do not nest. */
static void reach_pin_slab(ShmReach *reach, uint32_t slab) {
        ShmActor *control = reach->control;
        SlabWord w = shm_slab_word(control->arena, slab);
        uint32_t index;

        if (slab_word_epoch(w) >= control->arena->n_epochs || slab_word_class(w) >= control->arena->n_classes)
                return;
        index = shm_arena_cache_index(control->arena, slab_word_epoch(w), slab_word_class(w));
        reach->pinned = shm_arena_cache_at(control->arena, 0, index);
        shm_record_use_cache(control->record, index);
        shm_cache_release_held(control, 0, reach->pinned); /* a dead maintainer may have left one */
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        if (shm_slab_pin(control, slab) == 0)
                /* ORDER: rlx; ordered by the intent. */
                shm_store_rlx(&reach->pinned->held, slab + 1);
        shm_actor_intend(control, 0);
}

/* The first slab in which slots are still open. */
static bool find_open(const ShmReach *reach, uint32_t *ret) {
        for (uint32_t i = 0; i < reach->refs.n; i++)
                if (reach->slabs[i].open != 0) {
                        *ret = shm_refs_slab(&reach->refs, i);
                        return true;
                }
        return false;
}

static ShmReachState end_round(ShmReach *reach) {
        /* ORDER: rlx; our own. */
        bool stands = shm_load_rlx(&reach->control->record->intent_what) != 0;
        uint32_t slab;

        release_seized(reach);
        if (!find_open(reach, &slab))
                return SHM_REACH_DONE;
        if (++reach->round < ROUNDS)
                return SHM_REACH_VIEW;
        if (stands || reach->n_pinned == PINNED_MAX)
                return SHM_REACH_DONE;
        reach->n_pinned++;
        reach_pin_slab(reach, slab);
        return SHM_REACH_VIEW;
}

/* True: that was the last slab. */
static bool next_slab(ShmReach *reach, uint32_t *budget) {
        uint32_t i = reach->position++;

        if (i >= reach->refs.n) {
                reach->position = 0;
                return true;
        }
        *budget -= VIEW_COST < *budget ? VIEW_COST : *budget;
        if (reach->state == SHM_REACH_DECIDE)
                reach_decide_slab(reach, i);
        else
                reach_view_slab(reach, i);
        return false;
}

bool shm_reach_step(ShmReach *reach, uint32_t *budget) {
        if (reach->refs.n == 0)
                reach->state = SHM_REACH_DONE;
        while (*budget > 0 && reach->state != SHM_REACH_DONE) {
                if (reach->state == SHM_REACH_GATHER) {
                        if (shm_refs_step(&reach->refs, budget))
                                reach->state = SHM_REACH_DECIDE;
                } else if (next_slab(reach, budget)) {
                        if (reach->state == SHM_REACH_VIEW)
                                shm_refs_begin(&reach->refs);
                        reach->state = reach->state == SHM_REACH_VIEW ? SHM_REACH_GATHER : end_round(reach);
                }
        }
        return reach->state == SHM_REACH_DONE;
}

uint32_t shm_reach_run(ShmReach *reach) {
        uint32_t budget, n = 0;

        do
                budget = UINT32_MAX;
        while (!shm_reach_step(reach, &budget));
        for (uint32_t i = 0; i < reach->refs.n; i++)
                n += (uint32_t) __builtin_popcountll(reach->slabs[i].lost);
        return n;
}
