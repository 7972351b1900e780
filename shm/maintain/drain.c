/*
 * Draining
 *
 * Purpose: the walk over an epoch's slabs after it was closed.
 *
 * Invariants
 *   1. A slab becomes DRAINING only after the epoch's word says that its era is over, and only if the slab's word still
 *      has that era when it changes.
 *   2. A slab of an era that is over is in `of_epoch`, or a thread inside an operation is about to set that bit, or
 *      repair sets it because a dead thread's intent names the slab. So a walk that begins after those threads have
 *      moved on sees every slab; only such a walk stores DRAINED, and the floor of the eras.
 *   3. Dropping the pages of a FREE slab is always right, even if another thread used the slab in between, since only a
 *      slab that is FREE at that instant is taken.
 *
 * Who may do what: the maintainer.
 *
 * Crash: between any two steps the walk can be begun anew.
 */
#include "shm/maintain/drain.h"

#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

typedef enum Fate {
        FATE_KEEP, /* its era is open */
        FATE_LEFT, /* its era is over, objects remain */
        FATE_EMPTY, /* its era is over, its pages go */
        FATE_STALE, /* the set's bit is for nothing */
} Fate;

static Fate fate_of(const ShmArena *arena, uint32_t epoch, SlabWord w) {
        SlabState state = slab_word_state(w);

        if (state == SLAB_UNCOMMITTED || state >= SLAB_BUSY || slab_word_epoch(w) != epoch)
                return FATE_STALE;
        if (!shm_epoch_over(arena, epoch, slab_word_era(w)))
                return FATE_KEEP;
        return state == SLAB_FREE ? FATE_EMPTY : FATE_LEFT;
}

static uint32_t age_of(uint32_t newest, uint32_t era) {
        return (newest - era) & SLAB_ERA_BITS;
}

static void count_left(ShmDrain *drain, uint32_t newest, uint32_t era) {
        if (drain->n_left++ == 0)
                drain->oldest = drain->youngest = era;
        if (age_of(newest, era) > age_of(newest, drain->oldest))
                drain->oldest = era;
        if (age_of(newest, era) < age_of(newest, drain->youngest))
                drain->youngest = era;
}

bool shm_drain_met(const ShmArena *arena, const ShmDrain *drain, uint32_t era) {
        ShmEpochInfo info;
        uint32_t age;

        if (drain->n_left == 0 || era == 0 || shm_epoch_get(arena, drain->epoch, &info))
                return drain->n_left > 0;
        age = age_of(info.era, era);
        return age >= age_of(info.era, drain->youngest) && age <= age_of(info.era, drain->oldest);
}

static Fate drain_slab(ShmActor *control, ShmDrain *drain, uint32_t slab) {
        SlabWord w = shm_slab_word(control->arena, slab);
        Fate fate = fate_of(control->arena, drain->epoch, w);
        ShmEpochInfo info;

        if (fate == FATE_LEFT) {
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
                /* Refused if the slab is DRAINING already, or another epoch's by now. */
                (void) shm_slab_drain(control, slab, w.high & SLAB_KEY_MASK);
                shm_actor_intend(control, 0);
                w = shm_slab_word(control->arena, slab);
                fate = fate_of(control->arena, drain->epoch, w);
        }
        if (fate == FATE_LEFT && shm_epoch_get(control->arena, drain->epoch, &info) == 0)
                count_left(drain, info.era, slab_word_era(w));
        return fate;
}

/* A sum for people, which the maintainer alone adds to. */
static void sum_add(uint64_t *sum, uint64_t n) {
        shm_hint_store(sum, shm_hint_load(sum) + n);
}

static void drop_empty(ShmActor *control, ShmDrain *drain, uint32_t group, uint64_t mask) {
        ShmEpoch *e = &control->arena->header->epochs[drain->epoch];
        uint64_t size =
                (uint64_t) shm_pages_drop_counted(control, &drain->splits, group, mask) * SHM_SLAB_SIZE;

        drain->reclaimed_size += size;
        sum_add(&e->reclaimed_size, size);
        sum_add(&e->era_reclaimed_size, size);
}

static void drain_group(ShmActor *control, ShmDrain *drain, uint32_t group, uint64_t mask) {
        uint64_t empty = 0, gone = 0;

        for (; mask != 0; mask &= mask - 1) {
                uint32_t bit = (uint32_t) __builtin_ctzll(mask);
                Fate fate = drain_slab(control, drain, group * 64 + bit);

                empty |= (uint64_t) (fate == FATE_EMPTY) << bit;
                gone |= (uint64_t) (fate == FATE_EMPTY || fate == FATE_STALE) << bit;
        }
        if (empty != 0)
                drop_empty(control, drain, group, empty);
        if (gone != 0) {
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, group * 64, 64));
                shm_set_remove_mask(control->arena, shm_set_of_epoch(control->arena, drain->epoch), group,
                                    gone);
                shm_actor_intend(control, 0);
        }
}

static void end_walk(ShmArena *arena, const ShmDrain *drain) {
        ShmEpochInfo info;

        shm_pages_add_splits(arena, &drain->splits);
        if (drain->final && shm_epoch_get(arena, drain->epoch, &info) == 0)
                shm_epoch_walked(arena, drain->epoch,
                                 drain->n_left > 0 ? drain->oldest : info.era & SLAB_ERA_BITS, drain->n_left);
        else if (drain->n_left > 0)
                shm_epoch_set_not_empty(arena, drain->epoch);
}

bool shm_drain_step(ShmActor *control, ShmDrain *drain, uint32_t n_max) {
        ShmArena *arena = control->arena;

        if (drain->slabs.end == 0)
                shm_slab_walk_begin(&drain->slabs, arena, shm_set_of_epoch(arena, drain->epoch));
        for (uint32_t n = 0; n < n_max; n += 64) {
                uint32_t budget = 64,
                         group; /* a group costs that, however few slabs it has: their pages may go */
                uint64_t mask;

                if (shm_slab_walk_group(&drain->slabs, arena, &budget, &group, &mask)) {
                        drain_group(control, drain, group, mask);
                } else if (shm_slab_walk_done(&drain->slabs)) {
                        end_walk(arena, drain);
                        return true;
                }
        }
        return false;
}
