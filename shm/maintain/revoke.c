/*
 * Revoking
 *
 * Purpose: makes every handle into an epoch stale, while threads go on freeing, and some are stopped.
 *
 * Invariants
 *   1. A tag is made even by compare-and-set, and a slot given back only by whose it was: of a free and
 *      a revocation that race, one wins.
 *   2. A slot that a thread has in hand (its tag odd on top of a cache, or under TAKE) is left alone:
 *      the thread would lower its count after the slot had gone. It is swept later.
 *   3. Only slabs of eras that are over: nothing is claimed in these any more. A slab that empties
 *      meanwhile may become another epoch's at once, so each slot is judged by era and tag as they were.
 *
 * Who may do what: control work. Everybody else goes on meanwhile.
 *
 * Crash: CLAIM names the slots of the slab at work, with the meaning that repair gives it: those whose
 *   tags are even, and which are nobody's, go back.
 */
#include "shm/maintain/revoke.h"

#include "shm/epoch.h"
#include "shm/maintain/judge.h"
#include "shm/set.h"
#include "shm/slab.h"

/* Eras of slabs are 12 bits: half of them back is before, the other half is after. */
static bool is_later(uint32_t slab_era, uint32_t era) {
        uint32_t distance = (slab_era - era) & SLAB_ERA_BITS;

        return era != 0 && distance != 0 && distance <= SLAB_ERA_BITS / 2;
}

static bool is_over(const ShmArena *arena, uint32_t epoch, SlabWord w) {
        return slab_word_place(w) >= SLAB_LISTED && slab_word_place(w) <= SLAB_DRAINING &&
               slab_word_epoch(w) == epoch && shm_epoch_over(arena, epoch, slab_word_era(w));
}

/* Those whose compare-and-set was won. */
static uint64_t make_even(const ShmArena *arena, const ShmJudge *judge) {
        uint64_t won = 0;

        for (uint32_t i = 0; i < judge->n; i++) {
                const ShmSuspect *s = &judge->suspects[i];
                uint32_t expected = s->tag;

                /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before it is given back. */
                if (s->verdict == SHM_VERDICT_LOST &&
                    shm_cas_acqrel(shm_slot_tag(arena, s->id), &expected, s->tag + 1))
                        won |= slot_id_mask(s->id);
        }
        return won;
}

static void revoke_slab(ShmActor *control, ShmRevoke *revoke, uint32_t slab, SlabWord w) {
        ShmArena *arena = control->arena;
        uint64_t mask = w.low & ~shm_slab_class(arena, w)->beyond, won;
        ShmJudge judge;

        shm_judge_init(&judge, arena, true);
        judge.target = w.high & SLAB_TARGET_MASK;
        for (uint64_t rest = mask; rest != 0; rest &= rest - 1)
                shm_judge_add(&judge, slot_id(slab, (uint32_t) __builtin_ctzll(rest)));
        shm_judge_decide(&judge);
        for (uint32_t i = 0; i < judge.n; i++)
                revoke->kept += judge.suspects[i].verdict == SHM_VERDICT_OWNED ||
                                shm_judge_is_unsettled(&judge.suspects[i]);
        shm_actor_intend_mask(control, mask);
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
        won = make_even(arena, &judge);
        if (won != 0)
                (void) shm_slab_give_back(control, slab, won);
        shm_actor_intend(control, 0);
        revoke->objects += (uint64_t) __builtin_popcountll(won);
}

bool shm_revoke_step(ShmActor *control, ShmRevoke *revoke, uint32_t n) {
        const ShmArena *arena = control->arena;
        uint32_t set = shm_set_of_epoch(arena, revoke->epoch), end = shm_arena_n_slabs_ever(arena), slab;
        SlabWord w;

        for (; n > 0; n--) {
                if (!shm_set_find(arena, set, revoke->position, &slab) || slab >= end)
                        return true;
                w = shm_slab_word(arena, slab);
                if (slab_word_class(w) < arena->n_classes && is_over(arena, revoke->epoch, w) &&
                    !is_later(slab_word_era(w), revoke->era))
                        revoke_slab(control, revoke, slab, w);
                revoke->position = slab + 1;
        }
        return false;
}
