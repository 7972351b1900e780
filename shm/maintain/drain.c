/*
 * Draining
 *
 * Purpose: the walk over an epoch's slabs after it was closed.
 *
 * Invariants
 *   1. The epoch's word says that the era is over before a slab of it is made DRAINING.
 *   2. A slab of an era that is over is in `of_epoch`, or a thread inside an operation, or a dead
 *      one's intent, is to set that bit: a walk that begins after those threads have moved on sees
 *      every slab.
 *   3. Dropping a FREE slab is always right, whoever used it in between; only FREE ones are taken.
 *
 * Who may do what: control work.
 *
 * Crash: between any two steps the walk can be begun anew.
 */
#include "shm/maintain/drain.h"

#include "shm/epoch.h"
#include "shm/pages.h"
#include "shm/set.h"
#include "shm/slab.h"

typedef enum Verdict {
        VERDICT_KEEP, /* of the era that is open */
        VERDICT_LEFT, /* its era is over, objects remain */
        VERDICT_EMPTY, /* its era is over, its pages go */
        VERDICT_STALE, /* the set's bit is for nothing */
} Verdict;

static Verdict look(const ShmArena *arena, uint32_t epoch, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);
        SlabPlace place = slab_word_place(w);

        if (place == SLAB_UNCOMMITTED || place >= SLAB_BUSY || slab_word_epoch(w) != epoch)
                return VERDICT_STALE;
        if (!shm_epoch_over(arena, epoch, slab_word_era(w)))
                return VERDICT_KEEP;
        return place == SLAB_FREE ? VERDICT_EMPTY : VERDICT_LEFT;
}

static Verdict drain_slab(ShmActor *control, uint32_t epoch, uint32_t slab) {
        Verdict verdict = look(control->arena, epoch, slab);

        if (verdict != VERDICT_LEFT)
                return verdict;
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        (void) shm_slab_drain(control, slab); /* refused: it is DRAINING already */
        shm_actor_intend(control, 0);
        return look(control->arena, epoch, slab);
}

/* A sum for people, which control alone adds to. */
static void add(uint64_t *sum, uint64_t n) {
        shm_store_rlx(sum, shm_load_rlx(sum) + n); /* ORDER: rlx; for people. */
}

static void drain_group(ShmActor *control, ShmDrain *drain, uint32_t group, uint64_t mask) {
        ShmArena *arena = control->arena;
        uint64_t empty = 0, gone = 0;
        uint32_t n;

        for (; mask != 0; mask &= mask - 1) {
                uint32_t bit = (uint32_t) __builtin_ctzll(mask);
                Verdict verdict = drain_slab(control, drain->epoch, group * 64 + bit);

                drain->n_left += verdict == VERDICT_LEFT;
                empty |= (uint64_t) (verdict == VERDICT_EMPTY) << bit;
                gone |= (uint64_t) (verdict == VERDICT_EMPTY || verdict == VERDICT_STALE) << bit;
        }
        if (empty != 0) {
                ShmEpoch *e = &arena->header->epochs[drain->epoch];

                n = shm_pages_drop(control, group, empty);
                drain->reclaimed_size += (uint64_t) n * SHM_SLAB_SIZE;
                add(&e->reclaimed_size, (uint64_t) n * SHM_SLAB_SIZE);
                add(&e->era_reclaimed_size, (uint64_t) n * SHM_SLAB_SIZE);
        }
        if (gone != 0) {
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, group * 64, 64));
                shm_set_remove_mask(arena, shm_set_of_epoch(arena, drain->epoch), group, gone);
                shm_actor_intend(control, 0);
        }
}

bool shm_drain_step(ShmActor *control, ShmDrain *drain, uint32_t n_max) {
        ShmArena *arena = control->arena;
        uint32_t set = shm_set_of_epoch(arena, drain->epoch), slab;

        if (drain->position == 0)
                /* ORDER: acqrel, pairs with shm_slab_give_back(); who drains one from here on wakes us again. */
                (void) shm_xchg_acqrel(&arena->header->n_drained.value, 0);

        for (uint32_t n = 0; n < n_max; n += 64) {
                if (!shm_set_find(arena, set, drain->position, &slab)) {
                        shm_epoch_set_drained(arena, drain->epoch, drain->n_left == 0);
                        return true;
                }
                drain_group(control, drain, slab / 64, shm_set_group(arena, set, slab / 64));
                drain->position = (slab / 64 + 1) * 64;
        }
        return false;
}
